package cli

import "testing"

// An advised command repeats the flags of the line that say where things are, for a shell and without a password.
func TestAdviceRepeatsThePlace(t *testing.T) {
	t.Parallel()
	a := &app{}
	flags := a.rootCommand().PersistentFlags()
	for _, set := range [][2]string{{"data", "my data"}, {"log", "kafka://h:9092"}, {"registry", "redis://:pw@h"}, {"namespace", "it's"}, {"format", "json"}} {
		if err := flags.Set(set[0], set[1]); err != nil {
			t.Fatal(err)
		}
	}
	const want = ` --data 'my data' --log kafka://h:9092 --registry URL --namespace 'it'\''s'`
	if found := placeOf(flags); found != want {
		t.Errorf("found %s; expected %s", found, want)
	}
}
