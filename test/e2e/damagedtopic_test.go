package e2e_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
)

func reopen(t *testing.T, dir string) *ringfence.Client {
	t.Helper()
	rf := openDir(t, ringfence.Config{Dir: dir})
	return rf
}

// What an operator does who gives up a topic whose file is lost: the progress of its groups goes as well.
func TestADamagedTopicIsDeletedWithTheProgressOfItsGroups(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rf := reopen(t, dir)
	must(t, rf.EnsureTopic(t.Context(), "t", ringfence.TopicConfig{Partitions: 1}))
	_, err := rf.Produce(t.Context(), "t", ringfence.Message{Value: []byte("v")})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	must(t, rf.Consume(ctx, "t", "g", func(context.Context, *ringfence.Message) error {
		stop()
		return nil
	}, nil))
	must(t, rf.Close())
	files, err := filepath.Glob(filepath.Join(dir, "log", "topics", "t..0.*", "topic"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	must(t, os.Truncate(files[0], 0))

	rf = reopen(t, dir)
	if err := rf.Admin().DeleteTopic(t.Context(), "t", nil); !errors.Is(err, ringfence.ErrConflict) {
		t.Errorf("without force: %v; expected ErrConflict", err)
	}
	must(t, rf.Admin().DeleteTopic(t.Context(), "t", &admin.DeleteTopicOptions{Force: true}))
	if groups, err := rf.Admin().ListGroups(t.Context()); err != nil || len(groups) > 0 {
		t.Errorf("groups %v, %v; expected that none is left", groups, err)
	}
	must(t, rf.EnsureTopic(t.Context(), "t", ringfence.TopicConfig{Partitions: 1}))
}
