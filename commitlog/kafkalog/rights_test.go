package kafkalog_test

import (
	"context"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ringfence/ringfence/commitlog/kafkalog"
	"github.com/ringfence/ringfence/commitlog/logtest"
	"github.com/ringfence/ringfence/internal/testserver"
)

// right is one operation of an ACL.
type right struct {
	on        kmsg.ACLResourceType
	operation kmsg.ACLOperation
}

func (r right) String() string { return fmt.Sprintf("%s on %s", r.operation, r.on) }

// rightsOfKafka are those of the lines of the guide, for everything that begins with the prefix.
func rightsOfKafka(t *testing.T) (rights []right) {
	t.Helper()
	for _, line := range testserver.Rights(t, "Kafka") {
		words := strings.Fields(line)
		var on kmsg.ACLResourceType
		for i, word := range words {
			switch word {
			case "--topic", "--group":
				if words[i+1] != "prod." || !strings.Contains(line, "--resource-pattern-type prefixed") {
					t.Fatalf("%q: expected the prefix prod.", line)
				}
				on = map[string]kmsg.ACLResourceType{"--topic": kmsg.ACLResourceTypeTopic, "--group": kmsg.ACLResourceTypeGroup}[word]
			case "--operation":
				operation, err := kmsg.ParseACLOperation(words[i+1])
				if err != nil || on == 0 {
					t.Fatalf("%q: %v; expected operations on a topic or a group", line, err)
				}
				rights = append(rights, right{on, operation})
			}
		}
	}
	return rights
}

// With exactly what the guide names everything can be done, and with one right less it can't: the error
// says that the broker denies it.
func TestTheRightsThatTheGuideNamesAreEnoughAndNoneTooMany(t *testing.T) {
	t.Parallel()
	rights := rightsOfKafka(t)
	t.Run("all", func(t *testing.T) {
		t.Parallel()
		if err := withRights(t, rights); err != nil {
			t.Error(err)
		}
	})
	for i, lacks := range rights {
		t.Run("without "+lacks.String(), func(t *testing.T) {
			t.Parallel()
			err := withRights(t, slices.Delete(slices.Clone(rights), i, i+1))
			t.Log(err)
			if !errors.Is(err, kerr.TopicAuthorizationFailed) && !errors.Is(err, kerr.GroupAuthorizationFailed) {
				t.Errorf("%v; expected that the broker denies something", err)
			}
		})
	}
}

// withRights does everything that a log is asked for, as a user with these rights for a prefix of its own.
func withRights(t *testing.T, rights []right) error {
	t.Helper()
	c := config(t)
	c.User, c.Password, c.Mechanism = "rf"+strings.ToLower(rand.Text()), "s3cret", kafkalog.ScramSHA256
	allow(t, c, rights)
	u, err := url.Parse(testserver.URL(t, "kafka_sasl"))
	if err != nil {
		t.Fatal(err)
	}
	c.Brokers = []string{u.Host}
	l, err := kafkalog.Open(t.Context(), c)
	if err != nil {
		return err
	}
	err = logtest.Life(t.Context(), l)
	return errors.Join(err, l.Close())
}

// allow makes the user of c with these rights, and waits until the broker knows of them.
func allow(t *testing.T, c kafkalog.Config, rights []right) {
	t.Helper()
	admin := stranger(t, c)
	salt := []byte("a salt of sixteen")
	const iterations = 4096
	salted, err := pbkdf2.Key(sha256.New, c.Password, salt, iterations, sha256.Size)
	if err != nil {
		t.Fatal(err)
	}
	user := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
	user.Name, user.Mechanism, user.Iterations, user.Salt, user.SaltedPassword = c.User, 1, iterations, salt, salted
	users := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	users.Upsertions = append(users.Upsertions, user)
	if resp, err := users.RequestWith(t.Context(), admin); err != nil || resp.Results[0].ErrorCode != 0 {
		t.Fatalf("a user: %+v, %v", resp, err)
	}
	acls := kmsg.NewPtrCreateACLsRequest()
	for _, r := range rights {
		acl := kmsg.NewCreateACLsRequestCreation()
		acl.Principal, acl.Host, acl.PermissionType = "User:"+c.User, "*", kmsg.ACLPermissionTypeAllow
		acl.ResourceType, acl.ResourceName, acl.ResourcePatternType, acl.Operation = r.on, c.Prefix, kmsg.ACLResourcePatternTypePrefixed, r.operation
		acls.Creations = append(acls.Creations, acl)
	}
	resp, err := acls.RequestWith(t.Context(), admin)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resp.Results {
		if r.ErrorCode != 0 {
			t.Fatalf("a right: %+v", r)
		}
	}
	t.Cleanup(func() { forbid(t, c) })
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(time.Minute); !known(t, admin, c.User, len(rights)); <-again.C {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain for the broker to know the user and its rights")
		}
	}
}

// known says whether the broker knows a user with so many rights.
func known(t *testing.T, admin *kgo.Client, user string, rights int) bool {
	t.Helper()
	users := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
	who := kmsg.NewDescribeUserSCRAMCredentialsRequestUser()
	who.Name = user
	users.Users = append(users.Users, who)
	seen, err := users.RequestWith(t.Context(), admin)
	if err != nil || len(seen.Results) != 1 || seen.Results[0].ErrorCode != 0 {
		return false
	}
	acls := kmsg.NewPtrDescribeACLsRequest()
	acls.ResourceType, acls.ResourcePatternType, acls.Operation, acls.PermissionType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny, kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	acls.Principal = kmsg.StringPtr("User:" + user)
	resp, err := acls.RequestWith(t.Context(), admin)
	n := 0
	for _, r := range resp.Resources {
		n += len(r.ACLs)
	}
	return err == nil && n == rights
}

// forbid removes the user and its rights.
func forbid(t *testing.T, c kafkalog.Config) {
	t.Helper()
	admin, err := kgo.NewClient(kgo.SeedBrokers(c.Brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	acls := kmsg.NewPtrDeleteACLsRequest()
	f := kmsg.NewDeleteACLsRequestFilter()
	f.ResourceType, f.ResourcePatternType, f.Operation, f.PermissionType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny, kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	f.Principal = kmsg.StringPtr("User:" + c.User)
	acls.Filters = append(acls.Filters, f)
	if _, err := acls.RequestWith(context.Background(), admin); err != nil {
		t.Error(err)
	}
	users := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	who := kmsg.NewAlterUserSCRAMCredentialsRequestDeletion()
	who.Name, who.Mechanism = c.User, 1
	users.Deletions = append(users.Deletions, who)
	if _, err := users.RequestWith(context.Background(), admin); err != nil {
		t.Error(err)
	}
}
