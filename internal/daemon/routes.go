package daemon

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
)

// routes has a handler for every route.
func (d *Daemon) routes() *http.ServeMux {
	t := &table{d: d, all: map[string]map[string]routed{}}
	d.access(t)
	topics(t)
	records(t)
	groups(t)
	subscriptions(t)
	rings(t)
	d.sessions(t)
	return t.mux()
}

func (d *Daemon) access(t *table) {
	on(t, &api.V1.Me, func(r *request, _ *api.None) (*api.Me, error) {
		return &api.Me{Principal: r.principal.Name, Grants: r.principal.Grants}, nil
	})
	on(t, &api.V1.ListTokens, func(*request, *api.None) (api.List[api.Token], error) {
		return api.List[api.Token]{Items: d.tokens.List()}, nil
	})
	on(t, &api.V1.MakeToken, func(r *request, in *api.MakeToken) (*api.NewToken, error) {
		return d.tokens.Make(r.Context(), r.principal.Name, in.Body, time.Now())
	})
	on(t, &api.V1.EndToken, func(r *request, in *api.TokenRef) (*api.Token, error) {
		return d.tokens.Revoke(r.Context(), r.principal.Name, in.Token, time.Now())
	})
}

// seen are the items of a list that the principal may know of.
func seen[T any](r *request, all []T, err error, name func(*T) string) (api.List[T], error) {
	all = slices.DeleteFunc(all, func(x T) bool { return !r.sees(name(&x)) })
	if all == nil {
		all = []T{}
	}
	return api.List[T]{Items: all}, err
}

func topics(t *table) {
	on(t, &api.V1.ListTopics, func(r *request, _ *api.None) (api.List[api.TopicSummary], error) {
		all, err := r.rf.Admin().ListTopics(r.Context())
		return seen(r, all, err, func(s *api.TopicSummary) string { return s.Name })
	})
	on(t, &api.V1.DescribeTopic, func(r *request, in *api.TopicRef) (api.Topic, error) {
		return r.rf.Admin().DescribeTopic(r.Context(), in.Topic)
	})
	on(t, &api.V1.CreateTopic, func(r *request, in *api.CreateTopic) (api.Topic, error) {
		cfg := admin.TopicConfig{
			Partitions: in.Body.Partitions, Router: in.Body.Router, Hash: in.Body.Hash, ID: in.Body.ID,
			RetentionBytes: in.Body.Retention.Bytes, RetentionAgeMS: in.Body.Retention.AgeMS, RetentionForce: in.Body.Retention.Force,
		}
		if err := r.rf.Admin().CreateTopic(r.Context(), in.Topic, cfg, &admin.CreateTopicOptions{MustBeNew: in.New}); err != nil {
			return api.Topic{}, err
		}
		return r.rf.Admin().DescribeTopic(r.Context(), in.Topic)
	})
	on(t, &api.V1.AlterTopic, func(r *request, in *api.AlterTopic) (*api.RetentionChange, error) {
		return r.rf.Admin().AlterTopic(r.Context(), in.Topic, in.Body, &admin.AlterTopicOptions{DryRun: in.DryRun, ID: in.Life})
	})
	on(t, &api.V1.DeleteTopic, func(r *request, in *api.DeleteTopic) (*api.Deletion, error) {
		err := r.rf.Admin().DeleteTopic(r.Context(), in.Topic, &admin.DeleteTopicOptions{Force: in.Force, DryRun: in.DryRun, ID: in.Life})
		return &api.Deletion{What: "topic", Name: in.Topic, Deleted: !in.DryRun}, err
	})
	on(t, &api.V1.AddStorage, func(r *request, in *api.AddStorage) (api.Topic, error) {
		return r.rf.Admin().AddStorage(r.Context(), in.Topic, in.Body.Partitions)
	})
	on(t, &api.V1.SwitchProduce, func(r *request, in *api.TopicRef) (api.Topic, error) {
		return r.rf.Admin().SwitchProduce(r.Context(), in.Topic)
	})
	on(t, &api.V1.CheckTopic, func(r *request, in *api.TopicRef) (*api.TopicCheck, error) {
		return r.rf.Admin().CheckTopic(r.Context(), in.Topic)
	})
	on(t, &api.V1.RepairTopic, func(r *request, in *api.RepairTopic) (*api.TopicCheck, error) {
		return r.rf.Admin().RepairTopic(r.Context(), in.Topic, &admin.RepairTopicOptions{DryRun: in.DryRun})
	})
}

func groups(t *table) {
	on(t, &api.V1.ListGroups, func(r *request, in *api.ListGroups) (api.List[api.Group], error) {
		list := r.rf.Admin().ListGroups
		if in.Measure {
			list = r.rf.Admin().MeasureGroups
		}
		all, err := list(r.Context())
		return seen(r, all, err, func(g *api.Group) string { return g.Name })
	})
	on(t, &api.V1.DescribeGroup, func(r *request, in *api.GroupRef) (api.Group, error) {
		return r.rf.Admin().DescribeGroup(r.Context(), in.Group)
	})
	on(t, &api.V1.PauseGroup, func(r *request, in *api.PauseGroup) (api.None, error) {
		return api.None{}, r.rf.Admin().PauseGroup(r.Context(), in.Group, &admin.PauseGroupOptions{Partitions: in.Partitions})
	})
	on(t, &api.V1.ResumeGroup, func(r *request, in *api.PauseGroup) (api.None, error) {
		return api.None{}, r.rf.Admin().ResumeGroup(r.Context(), in.Group, &admin.PauseGroupOptions{Partitions: in.Partitions})
	})
	on(t, &api.V1.SeekGroup, func(r *request, in *api.SeekGroup) (*api.Seek, error) {
		to, err := ringfence.ParseSeek(in.To)
		if err != nil {
			return nil, err
		}
		return r.rf.Admin().SeekGroup(r.Context(), in.Group, to, &admin.SeekGroupOptions{Partitions: in.Partitions, Storage: in.Storage, DryRun: in.DryRun})
	})
	on(t, &api.V1.DeleteGroup, func(r *request, in *api.DeleteGroup) (api.None, error) {
		return api.None{}, r.rf.Admin().DeleteGroup(r.Context(), in.Group, &admin.DeleteGroupOptions{Force: in.Force})
	})
	on(t, &api.V1.Status, func(r *request, _ *api.None) (*api.Status, error) { return r.rf.Admin().Status(r.Context()) })
	on(t, &api.V1.ExplainKey, func(r *request, in *api.KeyRef) (*api.KeyAnswer, error) {
		return explain(r, in.Group, in.Key, in.Encoding)
	})
	on(t, &api.V1.Check, func(r *request, in *api.RunCheck) (*api.Check, error) {
		return r.rf.Admin().Check(r.Context(), cmp.Or(in.What, "all"), &admin.CheckOptions{Names: in.Names, Warn: in.Warn, Crit: in.Crit})
	})
}

// invalid is a fault of one parameter.
func invalid(at string, err error) error {
	p := *api.ProblemOf(fault.Invalid)
	p.Detail = at + ": " + err.Error()
	p.Errors = []api.ProblemError{{At: at, Message: err.Error()}}
	return &p
}
