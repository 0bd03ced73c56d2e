//go:build linux

package vfs

import (
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"
)

// inode is a *dirNode or a *fileNode.
type inode interface {
	info(name string) fs.FileInfo
	bytes() int64
}

// dirNode is a directory: live is what processes see, durable is what a crash can't take, and
// pending are the operations between the two, oldest first.
type dirNode struct {
	perm    fs.FileMode
	modTime time.Time
	live    map[string]inode
	durable map[string]inode
	pending []*dirOp
	removed bool // it has no name any more, and nothing can be made in it
}

// dirOp is one atomic operation. A rename between two directories is pending in both.
type dirOp struct{ changes []change }

type change struct {
	dir  *dirNode
	name string
	to   inode // nil: the name goes away
}

func newDirNode(perm fs.FileMode) *dirNode {
	return &dirNode{perm: perm, modTime: now(), live: map[string]inode{}, durable: map[string]inode{}}
}

func (d *dirNode) info(name string) fs.FileInfo {
	return memInfo{name: name, mode: d.perm.Perm() | fs.ModeDir, modTime: d.modTime, node: d}
}

func (d *dirNode) bytes() (n int64) {
	for _, e := range d.live {
		n += e.bytes()
	}
	return n
}

// apply makes an operation visible and leaves it pending.
func (d *dirNode) apply(op *dirOp) {
	for i, c := range op.changes {
		c.dir.modTime = now()
		set(c.dir.live, c.name, c.to)
		if i == 0 || c.dir != op.changes[0].dir {
			c.dir.pending = append(c.dir.pending, op)
		}
	}
}

func set(m map[string]inode, name string, to inode) {
	if to == nil {
		delete(m, name)
		return
	}
	m[name] = to
}

// flush makes the n oldest pending operations durable.
func (d *dirNode) flush(n int) {
	for ; n > 0 && len(d.pending) > 0; n-- {
		d.pending[0].commit()
	}
}

// commit makes one operation durable, and before it everything older in the directories that it
// touches: each directory survives as a prefix of its history.
func (op *dirOp) commit() {
	for _, c := range op.changes {
		for len(c.dir.pending) > 0 && c.dir.pending[0] != op {
			c.dir.pending[0].commit()
		}
	}
	for i, c := range op.changes {
		set(c.dir.durable, c.name, c.to)
		if i == 0 || c.dir != op.changes[0].dir {
			c.dir.pending = c.dir.pending[1:]
		}
	}
}

func (d *dirNode) removeTree(name string) {
	n, ok := d.live[name]
	if !ok {
		return
	}
	if sub, isDir := n.(*dirNode); isDir {
		for _, base := range sortedKeys(sub.live) {
			sub.removeTree(base)
		}
		sub.removed = true
	}
	d.apply(&dirOp{changes: []change{{d, name, nil}}})
}

// contains tells whether other is d or lies below it.
func (d *dirNode) contains(other *dirNode) bool {
	if d == other {
		return true
	}
	for _, n := range d.live {
		if sub, ok := n.(*dirNode); ok && sub.contains(other) {
			return true
		}
	}
	return false
}

func (d *dirNode) lookup(name string) (inode, error) {
	var n inode = d
	for _, part := range split(name) {
		dir, ok := n.(*dirNode)
		if !ok {
			return nil, syscall.ENOTDIR
		}
		if n, ok = dir.live[part]; !ok {
			return nil, syscall.ENOENT
		}
	}
	return n, nil
}

func (d *dirNode) dir(name string) (*dirNode, error) {
	n, err := d.lookup(name)
	if err != nil {
		return nil, err
	}
	if sub, ok := n.(*dirNode); ok {
		return sub, nil
	}
	return nil, syscall.ENOTDIR
}

// parent is the directory of name, and the last part of name.
func (d *dirNode) parent(name string) (*dirNode, string, error) {
	if name == "." {
		return nil, "", syscall.EINVAL
	}
	in, err := d.dir(path.Dir(name))
	return in, path.Base(name), err
}

func split(name string) []string {
	if name == "." {
		return nil
	}
	return strings.Split(name, "/")
}

// OpenDir opens a directory: it stays the same one whatever becomes of its name.
func (f *Mem) OpenDir(name string) (d Dir, err error) {
	err = f.run("opendir", func() error {
		top, err := f.top.dir(name)
		if err == nil {
			d = &memDir{&Mem{m: f.m, p: f.p, top: top, at: path.Join(f.at, name)}}
		}
		return err
	}, name)
	return d, err
}

// memDir is a Mem whose names begin in one directory.
type memDir struct{ *Mem }

// Close ends the handle; files that were opened through it stay open.
func (d *memDir) Close() error {
	return d.run("close", func() error {
		d.closed = true
		return nil
	})
}

// memInfo describes a file or directory of a Mem.
type memInfo struct {
	name    string
	size    int64
	mode    fs.FileMode
	modTime time.Time
	node    inode
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) Mode() fs.FileMode  { return i.mode }
func (i memInfo) ModTime() time.Time { return i.modTime }
func (i memInfo) IsDir() bool        { return i.mode.IsDir() }
func (i memInfo) Sys() any           { return nil }

// SameFile tells whether two answers of Stat are about one file or directory, whatever it is called.
func SameFile(a, b fs.FileInfo) bool {
	if m, ok := a.(memInfo); ok {
		n, ok := b.(memInfo)
		return ok && m.node == n.node
	}
	return os.SameFile(a, b)
}
