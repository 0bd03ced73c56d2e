package logtest

import "github.com/ringfence/ringfence/commitlog"

var trimTests = []test{
	{"Trim/RaisesTheFirstOffset", strictTrim, trimFirst},
	{"Trim/EverythingKeepsTheOffsets", strictTrim, trimAll},
	{"Trim/LastsAndIsSeenByOthers", strictTrim, trimLasts},
	{"Hold/KeepsRecordsFromRetention", nil, holdKeeps},
	{"Hold/KeepsRecordsFromARetentionThatCameLater", fineRetention, laterRetention},
}

func trimFirst(e *env) {
	t := e.topic(e.log(), 2)
	all := fill(e, t, 30)
	e.add(t, 1, "other")
	cut := all[10].Offset
	e.must(t.Trim(e.ctx, 0, cut))
	if got := e.bounds(t, 0).First; got != cut {
		e.Errorf("first offset %d; want %d", got, cut)
	}
	e.must(t.Trim(e.ctx, 0, all[3].Offset)) // no way back
	if got := e.bounds(t, 0).First; got != cut {
		e.Errorf("first offset after a lower trim: %d; want %d", got, cut)
	}
	e.wantValues(e.all(t, 0), values(all[10:])...)
	_, _, err := t.Read(e.ctx, 0, all[9].Offset, nil, nil)
	e.wantIs(err, commitlog.ErrOutOfRange)
	e.wantValues(e.all(t, 1), "other")
}

func trimAll(e *env) {
	t := e.topic(e.log(), 1)
	all := fill(e, t, 10)
	end := e.bounds(t, 0).Next
	e.must(t.Trim(e.ctx, 0, end+1000))
	if b := e.bounds(t, 0); b.First != b.Next || b.Next != end {
		e.Errorf("bounds after trimming everything: %+v; want both %d", b, end)
	}
	if first := e.add(t, 0, "new"); first <= all[9].Offset {
		e.Errorf("offset %d was given out again", first)
	}
	e.wantValues(e.all(t, 0), "new")
}

func trimLasts(e *env) {
	l, a, b := e.two(1)
	all := fill(e, a, 10)
	e.must(a.Trim(e.ctx, 0, all[5].Offset))
	if got := e.bounds(b, 0).First; got != all[5].Offset {
		e.Errorf("the other handle has first offset %d; want %d", got, all[5].Offset)
	}
	e.must(l.Close())
	t := e.openTopic(e.log())
	if got := e.bounds(t, 0).First; got != all[5].Offset {
		e.Errorf("after reopening the first offset is %d; want %d", got, all[5].Offset)
	}
	e.wantValues(e.all(t, 0), values(all[5:])...)
}
