// Package apply makes topics and subscriptions be as a YAML file says: it reads the file, finds out what
// differs from what is there, and changes that. It never deletes anything.
//
// All of the file is checked before anything is changed, also against what is there. Each step is one
// that can be repeated, so a run that was cut off is finished by the next one; and each is conditional on
// what was seen, so of two runs at the same time none undoes what the other did.
package apply

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/storeurl"
)

const (
	defaultPartitions = 8  // as "topic create"
	mostFaults        = 20 // that are told of one file
)

// File is what a file asks for.
type File struct {
	Name          string // for messages
	Topics        []*Object[admin.TopicConfig]
	Subscriptions []*Object[admin.SubscriptionConfig]
}

// Object is one topic or subscription of a file.
type Object[C any] struct {
	Name   string
	Config C
	line   int
	named  map[string]int // the lines of the fields that the file has; all else stays as it is
}

// Decode reads a file of one or more YAML documents; name is what messages call it. Its error has every
// fault with its line, or the first twenty; each is ErrInvalid.
func Decode(name string, raw []byte) (*File, error) {
	d := decoder{File: File{Name: name}, lines: map[string]int{}}
	docs := yaml.NewDecoder(bytes.NewReader(raw))
	for {
		var doc yaml.Node
		err := docs.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			d.errs = append(d.errs, syntax(name, err))
			break
		}
		for _, root := range doc.Content {
			d.document(root)
		}
	}
	if len(d.errs) == 0 && len(d.Topics)+len(d.Subscriptions) == 0 {
		d.errs = append(d.errs, fmt.Errorf("%s: nothing is in it; expected \"topics\" or \"subscriptions\": %w", name, fault.Invalid))
	}
	if more := len(d.errs) - mostFaults; more > 0 {
		d.errs = append(d.errs[:mostFaults], fmt.Errorf("%s: and %d more: %w", name, more, fault.Invalid))
	}
	if err := errors.Join(d.errs...); err != nil {
		return nil, err
	}
	return &d.File, nil
}

// syntax is what the parser says, which has a line in most cases.
func syntax(name string, err error) error {
	text := strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: ")), " ")
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		if line, what, ok := strings.Cut(rest, ": "); ok {
			return fmt.Errorf("%s:%s: no valid YAML: %s: %w", name, line, what, fault.Invalid)
		}
	}
	return fmt.Errorf("%s: no valid YAML: %s: %w", name, text, fault.Invalid)
}

type decoder struct {
	File
	lines map[string]int // of the objects so far, by kind and name
	errs  []error
}

func (d *decoder) fail(line int, format string, args ...any) {
	d.errs = append(d.errs, fmt.Errorf("%s:%d: %s: %w", d.Name, line, fmt.Sprintf(format, args...), fault.Invalid))
}

func (d *decoder) document(root *yaml.Node) {
	d.mapping(root, "\"topics\" and \"subscriptions\"", func(key string, _ int, value *yaml.Node) bool {
		switch key {
		case "topics":
			d.Topics = append(d.Topics, section(d, "topic", value, topicFields())...)
		case "subscriptions":
			d.Subscriptions = append(d.Subscriptions, section(d, "subscription", value, subscriptionFields())...)
		default:
			return false
		}
		return true
	})
}

// mapping calls each for every key of a mapping, to say whether it knows it. A key stands there once; nothing is empty.
func (d *decoder) mapping(n *yaml.Node, expected string, each func(key string, line int, value *yaml.Node) bool) {
	n = target(n)
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.fail(n.Line, "found %s; expected a mapping of %s", kind(n), expected)
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.Tag == "!!null" {
			d.fail(key.Line, "found %s as a key; expected %s", kind(key), expected)
			continue
		}
		if first, double := seen[key.Value]; double {
			d.fail(key.Line, "%s stands there twice, first in line %d", storeurl.Quote(key.Value), first)
			continue
		}
		seen[key.Value] = key.Line
		if !each(key.Value, key.Line, value) {
			d.fail(key.Line, "unknown field %s; expected %s", storeurl.Quote(key.Value), expected)
		}
	}
}

// target is the value itself where n is an alias of one.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func kind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	if n.Value == "" {
		return "nothing"
	}
	return storeurl.Quote(n.Value)
}

// section reads the topics or the subscriptions of a document.
func section[C interface{ Validate(name string) error }](d *decoder, what string, n *yaml.Node, fields []field[C]) (all []*Object[C]) {
	known := make(map[string]field[C], len(fields))
	names := make([]string, len(fields))
	for i, f := range fields {
		known[f.name], names[i] = f, f.name
	}
	d.mapping(n, what+"s by name", func(name string, line int, body *yaml.Node) bool {
		faults := len(d.errs)
		if first, double := d.lines[what+" "+name]; double {
			d.fail(line, "%s %s stands there twice, first in line %d", what, storeurl.Quote(name), first)
		}
		d.lines[what+" "+name] = line
		o := &Object[C]{Name: name, line: line, named: map[string]int{}}
		d.mapping(body, strings.Join(names, ", "), func(key string, line int, value *yaml.Node) bool {
			f, ok := known[key]
			if value = target(value); ok {
				o.named[key] = line
				if value.Kind != yaml.ScalarNode || !f.read(&o.Config, value.Value) {
					d.fail(value.Line, "%s %s: %s: found %s; expected %s", what, storeurl.Quote(name), key, kind(value), f.expected)
				}
			}
			return ok
		})
		if t, ok := any(&o.Config).(*admin.TopicConfig); ok && t.Partitions == 0 {
			t.Partitions = defaultPartitions
		}
		if c, ok := any(&o.Config).(*admin.SubscriptionConfig); ok {
			d.together(name, line, c, o.named)
		}
		if len(d.errs) == faults {
			if err := o.Config.Validate(name); err != nil {
				place := fmt.Sprintf("%s:%d: ", d.Name, line) // before each of the errors that are joined
				d.errs = append(d.errs, fmt.Errorf("%s%s: %w", place, strings.ReplaceAll(strings.TrimSuffix(err.Error(), ": "+fault.Invalid.Error()), "\n", "\n"+place), fault.Invalid))
			}
		}
		all = append(all, o)
		return true
	})
	return all
}

// together refuses fields of a subscription that are nothing without another one.
func (d *decoder) together(name string, line int, c *admin.SubscriptionConfig, named map[string]int) {
	if _, there := named["topic"]; !there {
		d.fail(line, "subscription %s: \"topic\" is missing; expected the name of the topic that it delivers", storeurl.Quote(name))
	}
	for _, field := range []string{"timeout", "secret-file", "cloudevents", "give-up-first"} {
		if at, there := named[field]; there && c.Endpoint.URL == "" {
			d.fail(at, "subscription %s: %s: it is of an endpoint; expected \"endpoint\" with it", storeurl.Quote(name), field)
		}
	}
}

// where is where an object, or a field that the file names, stands.
func (o *Object[C]) where(file, field string) string {
	line := o.line
	if at, ok := o.named[field]; ok {
		line = at
	}
	return file + ":" + strconv.Itoa(line)
}
