package hook

import "context"

// Access stands where a process looks at memory that it shares with others, or changes it. A test ends the
// process there, has it take long, or lets another one come in between. The zero Access does nothing.
type Access struct {
	BeforeStore func()
	AfterLoad   func()
}

type accessKey struct{}

// With is the context to open a store with.
func (a Access) With(ctx context.Context) context.Context {
	return context.WithValue(ctx, accessKey{}, a)
}

// AccessOf is that of a store that is opened with ctx.
func AccessOf(ctx context.Context) Access {
	a, _ := ctx.Value(accessKey{}).(Access)
	return a
}

// Storing is called before a word is changed.
func (a *Access) Storing() {
	if a.BeforeStore != nil {
		a.BeforeStore()
	}
}

// Loaded is called when a word was read.
func (a *Access) Loaded() {
	if a.AfterLoad != nil {
		a.AfterLoad()
	}
}
