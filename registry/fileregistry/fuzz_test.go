package fileregistry

import (
	"bytes"
	"testing"
)

func FuzzFrame(f *testing.F) {
	b := beginFrame(nil)
	b = appendOp(b, &op{kind: opPut, key: "k", value: []byte("v"), session: "s"})
	b = appendOp(b, &op{kind: opOpen, key: "s", info: sessionInfo{id: "s", handle: "h", slot: 3, tag: 9, ttl: 5}})
	f.Add(sealFrame(b, 7, 64, 32, 5), uint32(7), uint64(64))
	f.Add([]byte{}, uint32(0), uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, nonce uint32, lsn uint64) {
		fr, err := parseFrame(b, nonce, lsn)
		if err != nil {
			return
		}
		again := sealFrame(append(beginFrame(nil), fr.ops...), nonce, fr.lsn, fr.synced, fr.rev)
		if len(again) != fr.size || !bytes.Equal(again[8:frameHeader+len(fr.ops)], b[8:frameHeader+len(fr.ops)]) {
			t.Fatalf("a frame that was accepted is encoded otherwise: % x, % x", again, b[:fr.size])
		}
	})
}

func FuzzOps(f *testing.F) {
	st := newState()
	var ch change
	st.apply(&op{kind: opOpen, key: "s", info: sessionInfo{id: "s", handle: "h", slot: 3, tag: 9, ttl: 5}}, "", &ch)
	st.apply(&op{kind: opPut, key: "k", value: []byte("v"), session: "s"}, "v1", &ch)
	f.Add(st.encode())
	f.Add(appendOp(nil, &op{kind: opDelete, quiet: true, key: "k"}))
	f.Add([]byte{3, 1, 's', 1, 'h', 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		st, err := decodeState(b, 0)
		if err != nil {
			return
		}
		once := st.encode()
		again, err := decodeState(once, 0)
		if err != nil {
			t.Fatalf("an encoded state can't be decoded: %v", err)
		}
		if twice := again.encode(); !bytes.Equal(once, twice) {
			t.Fatalf("a state changes when it is stored: % x, % x", once, twice)
		}
	})
}

func FuzzHeader(f *testing.F) {
	h := header{gen: 3, base: 800, rev: 12, nonce: 5, snapLen: 77, snapCRC: 1}
	f.Add(h.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHeader(b)
		if err == nil && !bytes.Equal(h.encode()[12:], b[12:headerSize]) {
			t.Fatalf("a header that was accepted is encoded otherwise: % x", b)
		}
	})
}
