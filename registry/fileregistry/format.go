package fileregistry

// The bytes of a journal file, little-endian. LSNs go on through all generations.
//
//	0              2048                4096
//	+--------------+-------------------+-----------------+------------+
//	| header       | the same again    | snapshot        | frames …   |
//	+--------------+-------------------+-----------------+------------+
//	                                                     a multiple of 4096
//
//	header   0 magic "RFREGJN1"    8 crc32c of bytes 12–63   12 format    16 generation
//	        24 LSN of first frame 32 revision of snapshot    40 nonce
//	        44 crc32c of snapshot 48 length of snapshot
//	frame    0 crc32c of the rest, started from the nonce     4 length of ops
//	         8 LSN of this frame  16 LSN known to be durable when it was written
//	        24 revision before its first op                  32 ops, zeros up to a multiple of 8
//	op       kind (1 put, 2 delete, 3 open, 4 end, 5 entry; +0x40 quiet), then strings as
//	         uvarint length and bytes, numbers as uvarints
//
// Of two headers in a file the higher valid one counts, of two files the higher generation. A file in
// which neither header reads may have been the newest, so the registry is not opened then. A version is
// "<nonce in hex>-<revision in hex>": the nonce keeps a version from being given out twice when a power
// loss takes back what was never durable.
// The page "control" is drawn in control.go.
