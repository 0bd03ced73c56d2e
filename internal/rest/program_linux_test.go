package rest

import "testing"

func resident(t *testing.T) (kib int) {
	t.Helper()
	parts, err := programParts()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		kib += p.resident
	}
	return kib
}

// The program that runs this is a small one: most of it is in use, or comes along with what is.
func TestWhatOnlyTheStartNeededOfTheProgramIsLetGo(t *testing.T) {
	t.Parallel()
	least, before := 0, resident(t)
	for range 10 { // other tests run, too
		forgetProgram()
		if after := resident(t); least == 0 || after < least {
			least = after
		}
	}
	if before == 0 || least >= before {
		t.Errorf("%d KiB of the program are in memory, of %d before; expected fewer", least, before)
	}
}
