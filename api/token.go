package api

// Token describes a token without its secret.
type Token struct {
	ID      string  `json:"id"`
	Name    string  `json:"name"`
	Grants  []Grant `json:"grants"`
	Created Time    `json:"created"`
	By      string  `json:"by"`                // the principal that made it
	Expires Time    `json:"expires,omitempty"` // "": never
	Revoked Time    `json:"revoked,omitempty"` // "": it was not
}

// Grant lets a principal do what a role includes, in the namespaces and with the objects that match. A pattern is a name,
// or the beginning of names and a star.
type Grant struct {
	Role      Role   `json:"role"`
	Namespace string `json:"namespace"`         // a pattern; "default" is the empty namespace
	Objects   string `json:"objects,omitempty"` // a pattern of the names of topics, groups, subscriptions and rings; "": all
}

// MakeToken makes a token.
type MakeToken struct{ Body NewTokenSpec }

// NewTokenSpec is what a token is made with.
type NewTokenSpec struct {
	Name    string  `json:"name"`
	Grants  []Grant `json:"grants"`
	Expires Time    `json:"expires,omitempty"`
}

// NewToken is a token with its secret.
type NewToken struct {
	Token
	Secret string `json:"secret"` // the whole text that clients send
}

// TokenRef names a token.
type TokenRef struct {
	Token string `path:"token"`
}

// Me is the principal of a request.
type Me struct {
	Principal string  `json:"principal"`
	Grants    []Grant `json:"grants"`
}
