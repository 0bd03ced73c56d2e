package api

import "slices"

// Permission is what a principal needs for a route.
type Permission string

// The permissions. The payload of records is one of its own.
const (
	TopicRead       Permission = "topic:read"
	TopicWrite      Permission = "topic:write"
	RecordRead      Permission = "record:read"
	RecordWrite     Permission = "record:write"
	GroupRead       Permission = "group:read"
	GroupOperate    Permission = "group:operate"
	GroupConsume    Permission = "group:consume"
	SubRead         Permission = "sub:read"
	SubWrite        Permission = "sub:write"
	SubOperate      Permission = "sub:operate"
	SubConsume      Permission = "sub:consume"
	LetterOperate   Permission = "letter:operate"
	RingRead        Permission = "ring:read"
	RingWrite       Permission = "ring:write"
	NamespaceRead   Permission = "ns:read"
	NamespaceWrite  Permission = "ns:write"
	TokenWrite      Permission = "token:write"
	Authenticated   Permission = "authenticated" // any principal, about itself
	WithoutIdentity Permission = "none"          // also without a token
)

// Role is a set of permissions.
type Role string

// The roles.
const (
	RoleViewer   Role = "viewer"   // sees everything but the payload of records
	RoleReader   Role = "reader"   // and the payload
	RoleProducer Role = "producer" // writes records
	RoleConsumer Role = "consumer" // takes part in groups and subscriptions
	RoleOperator Role = "operator" // sees everything but the payload, and gives orders that change no definition
	RoleAdmin    Role = "admin"    // everything in a namespace
	RoleOwner    Role = "owner"    // everything in every namespace, and tokens
)

// Roles are all roles, from the least to the most.
func Roles() []Role {
	return []Role{RoleViewer, RoleReader, RoleProducer, RoleConsumer, RoleOperator, RoleAdmin, RoleOwner}
}

// May says whether the role includes a permission.
func (r Role) May(p Permission) bool {
	views := []Permission{TopicRead, GroupRead, SubRead, RingRead, NamespaceRead}
	switch r {
	case RoleViewer:
		return slices.Contains(views, p)
	case RoleReader:
		return p == RecordRead || slices.Contains(views, p)
	case RoleProducer:
		return p == RecordWrite || p == TopicRead
	case RoleConsumer:
		return p == GroupConsume || p == SubConsume
	case RoleOperator:
		return slices.Contains(append(views, GroupOperate, SubOperate, LetterOperate), p)
	case RoleAdmin:
		return p != TokenWrite
	case RoleOwner:
		return true
	}
	return false
}
