// Package pulsarlog keeps a commit log in an Apache Pulsar cluster. It is a module of its own,
// because Pulsar's client has many dependencies.
//
// A storage topic is a partitioned topic; a record is a plain message with key, payload,
// properties and event time, so that other programs read what Ringfence wrote. docs/formats.md says
// what is stored where.
package pulsarlog
