package vfs

import "golang.org/x/sys/unix"

type magic struct {
	name    string
	network bool
}

// magics are the file systems we know by the number that statfs gives. Those marked as network
// are shared between hosts or answered by another program: their locks and shared mappings may
// hold on one host only. FUSE is among them because anything may be behind it.
var magics = map[uint32]magic{
	0xef53:     {"ext4", false},
	0x58465342: {"xfs", false},
	0x9123683e: {"btrfs", false},
	0x2fc12fc1: {"zfs", false},
	0xca451a4e: {"bcachefs", false},
	0x01021994: {"tmpfs", false},
	0x794c7630: {"overlay", false},
	0x73717368: {"squashfs", false},
	0x6969:     {"nfs", true},
	0xff534d42: {"cifs", true},
	0xfe534d42: {"smb2", true},
	0x517b:     {"smb", true},
	0x65735546: {"fuse", true},
	0x01021997: {"9p", true},
	0x00c36400: {"ceph", true},
	0x01161970: {"gfs2", true},
	0x7461636f: {"ocfs2", true},
	0x0bd00bd0: {"lustre", true},
	0x47504653: {"gpfs", true},
	0x19830326: {"beegfs", true},
	0x5346414f: {"afs", true},
	0x6b414653: {"kafs", true},
	0x73757245: {"coda", true},
	0xaad7aaea: {"panfs", true},
	0xbacbacbc: {"vmhgfs", true},
	0x786f4256: {"vboxsf", true},
	0x20030528: {"orangefs", true},
	0x013111a8: {"ibrix", true},
	0x564c:     {"ncp", true},
}

func kindOf(st *unix.Statfs_t) Kind {
	m := magics[uint32(st.Type)]
	return Kind{
		Type:      m.name,
		Network:   m.network,
		ReadOnly:  st.Flags&unix.ST_RDONLY != 0,
		FreeBytes: int64(min(st.Bavail, 1<<62/uint64(max(st.Bsize, 1)))) * st.Bsize,
	}
}
