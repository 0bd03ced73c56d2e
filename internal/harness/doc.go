// Package harness is what "ringfence demo", "ringfence verify" and the tests with real processes
// have in common: child processes that can be killed, stopped and asked to leave; a consumer that
// writes down what it did and what its registry answered; and the reading of what they wrote, for
// the judge in internal/history. The children of a measurement, which are given a job and speak in
// lines of JSON, are in job.go.
//
// A history can be trusted because of the moment at which it is written. The consumer tells an event before it
// goes on, with one write, so that kill -9 can't take back what others may have seen; the
// observer between the consumer and its registry tells what the store answered, not what the
// consumer believes; and all of them read one monotonic clock of the machine.
package harness
