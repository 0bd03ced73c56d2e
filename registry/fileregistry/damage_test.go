package fileregistry

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/vfs"
)

// image is a store's files after steps transactions.
func image(t *testing.T, steps int) map[string][]byte {
	t.Helper()
	mem := vfs.NewMem(2)
	r := mustOpenFS(t, mem)
	for i := 1; i <= steps; i++ {
		if _, err := r.Txn(t.Context(), step(i)); err != nil {
			t.Fatal(err)
		}
	}
	r.Close()
	return filesOf(t, mem)
}

// filesOf is what processes see of the store's files.
func filesOf(t *testing.T, mem *vfs.Mem) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	list, err := mem.ReadDir(dirName)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		f, err := mem.OpenFile(dirName+"/"+e.Name(), os.O_RDONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		size, _ := f.Size()
		b := make([]byte, size)
		if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		files[e.Name()] = b
		f.Close()
	}
	return files
}

// machineOf is a rebooted machine whose disk holds these files.
func machineOf(t *testing.T, files map[string][]byte) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem(rand.Uint64())
	if err := mem.MkdirAll(dirName, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, b := range files {
		f, err := mem.OpenFile(dirName+"/"+name, os.O_RDWR|os.O_CREATE, 0o600)
		if err == nil && len(b) > 0 {
			_, err = f.WriteAt(b, 0)
		}
		if err == nil {
			err = f.SyncData()
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	return mem
}

// damaged opens a damaged image: it must be found corrupt, or hold one of the allowed contents.
func damaged(t *testing.T, what string, files map[string][]byte, least, most int) {
	t.Helper()
	mem := machineOf(t, files)
	r, err := openFS(t, mem)
	if err != nil {
		if !errors.Is(err, fault.Corrupt) {
			t.Fatalf("%s: %v, expected it to be called corrupt", what, err)
		}
		if !strings.Contains(err.Error(), "journal-") {
			t.Fatalf("%s: the message does not name the place: %v", what, err)
		}
		return
	}
	defer r.Close()
	got := content(t, r)
	for n := least; n <= most; n++ {
		if got == model(n) {
			return
		}
	}
	t.Fatalf("%s: it was accepted with the content %q", what, got)
}

// used is where the data of the newest journal file ends.
func used(t *testing.T, files map[string][]byte) (name string, end int64) {
	t.Helper()
	var newest header
	for n, b := range files {
		if h, err := decodeHeader(b); err == nil && h.gen > newest.gen {
			newest, name = h, n
		}
	}
	b := files[name]
	lsn := newest.base
	for {
		fr, err := parseFrame(b[newest.offset(lsn):], newest.nonce, lsn)
		if err != nil {
			return name, newest.offset(lsn)
		}
		lsn += uint64(fr.size)
	}
}

func with(files map[string][]byte, name string, b []byte) map[string][]byte {
	out := map[string][]byte{}
	for n, x := range files {
		out[n] = x
	}
	if b == nil {
		delete(out, name)
	} else {
		out[name] = b
	}
	return out
}

func TestAJournalCutAnywhereIsLoudOrWhole(t *testing.T) {
	t.Parallel()
	const steps = 4
	files := image(t, steps)
	name, end := used(t, files)
	noEvidence := with(files, "control", nil)
	for cut := int64(1); cut <= end; cut++ {
		if cut > headerSize && cut < pageSize && cut%97 != 0 {
			continue // nothing lies there
		}
		least := steps // the control file knows what was durable
		damaged(t, fmt.Sprintf("%s cut at %d", name, cut), with(files, name, files[name][:cut]), least, steps)
		damaged(t, fmt.Sprintf("%s cut at %d, control file lost", name, cut), with(noEvidence, name, files[name][:cut]), 0, steps)
	}
	damaged(t, "journal missing", with(files, name, nil), steps, steps)
}

// A generation behind the first has another one beside it, whose content is older: it must not pass
// for the newest when that is lost.
func TestALostGenerationIsNotReplacedByTheOneBefore(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(3)
	for life := 1; life <= 4; life++ { // each begins a generation with its first write
		r := mustOpenFS(t, mem)
		if _, err := r.Txn(t.Context(), step(life)); err != nil {
			t.Fatal(err)
		}
		r.Close()
		files := filesOf(t, mem)
		name, _ := used(t, files)
		if h, err := decodeHeader(files[name]); err != nil || h.gen != uint64(life) {
			t.Fatalf("life %d writes into generation %d, %v", life, h.gen, err)
		}
		zeroed := make([]byte, len(files[name]))
		noHeader := append(make([]byte, headerSize), files[name][headerSize:]...)
		for what, b := range map[string][]byte{"removed": nil, "full of zeros": zeroed, "without its header": noHeader, "empty": {}} {
			damaged(t, fmt.Sprintf("generation %d is %s", life, what), with(files, name, b), life, life)
		}
		if life > 2 { // one before it that was not the first had another file beside it
			damaged(t, fmt.Sprintf("generation %d is removed, control file lost", life), with(with(files, "control", nil), name, nil), life, life)
		}
	}
}

// The generation that was recovered may be in memory only. The one before it, which is all that is
// on the disk then, is overwritten by the next: not before the recovered one was written again, and
// synced.
func TestARecoveredGenerationIsDurableBeforeTheOneBeforeIsOverwritten(t *testing.T) {
	t.Parallel()
	files := image(t, 3)
	name, _ := used(t, files)
	var did []string
	look := func(op *vfs.Op) error {
		if (op.Kind == vfs.OpWrite || op.Kind == vfs.OpSync) && strings.Contains(op.Name, "journal-") {
			did = append(did, fmt.Sprint(op.Kind, " ", op.Name, " ", op.Offset))
		}
		return nil
	}
	r := mustOpenFS(t, vfs.Inject(machineOf(t, with(files, "control", nil)), look)) // so that nobody knows what was durable
	r.Close()
	want := []string{fmt.Sprintf("write %s/%s 0", dirName, name), fmt.Sprintf("sync %s/%s 0", dirName, name)}
	if len(did) < 3 || !slices.Equal(did[:2], want) {
		t.Errorf("recovery did %q; expected it to begin with %q", did, want)
	}
}

func TestEveryFlippedBitIsLoudOrHarmless(t *testing.T) {
	t.Parallel()
	const steps = 4
	files := image(t, steps)
	name, end := used(t, files)
	noEvidence := with(files, "control", nil)
	for at := range end {
		if at >= headerSize && at < pageSize {
			continue
		}
		for bit := range 8 {
			b := append([]byte(nil), files[name]...)
			b[at] ^= 1 << bit
			what := fmt.Sprintf("bit %d of byte %d of %s flipped", bit, at, name)
			damaged(t, what, with(files, name, b), steps, steps)
			if bit == 3 {
				// Without the control file only the last frame has nothing behind it that proves it.
				damaged(t, what+", control file lost", with(noEvidence, name, b), steps-1, steps)
			}
		}
	}
}
