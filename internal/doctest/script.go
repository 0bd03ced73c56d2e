package doctest

import (
	"fmt"
	"regexp"
	"strings"
)

// Note is what a page does not say about a command, or about a block that is none.
type Note struct {
	Of     string   // the command, on one line and without its comment, or the first line of a block that is none
	Before string   // what the reader has done already, in the same shell
	Stdin  string   // what is typed
	Until  []string // patterns: Ctrl-C once all of them were printed
	Exit   int
	Want   []string // patterns that must have been printed in the end
	File   string   // the block is the content of this file
	After  string   // shows that the command did what the page says
	Needs  []string // servers
	Skip   string   // why it is not run; of a block without commands, all of it
}

// step is a piece of a page that is run or looked for.
type step struct {
	kind    kind
	line    int
	section string
	text    string // a command; a line of output; the content of a file; a target
	exact   bool   // output that stands below its command: its numbers count
	note    Note
}

type kind int

const (
	command kind = iota
	output
	file
	target // of make
)

var (
	// programs are the first words of commands; every other line is one of output.
	programs  = regexp.MustCompile(`^(ringfence|ringfence-pulsar|printf|echo|seq|tail|export|kill|cd|curl|kcat|psql|redis-cli|mariadb|pulsar-admin|pulsar-client|[A-Z_]+=\S+)( |$)`)
	makes     = regexp.MustCompile(`^make ([a-z-]+)`)
	continued = regexp.MustCompile(`\s*\\\n\s*`)
	comment   = regexp.MustCompile(`\s+#\s.*$`)
)

// notes are those of a page, and which of them were needed.
type notes struct {
	list []Note
	used []bool
}

func (n *notes) take(of string, fits func(Note) bool) (Note, bool) {
	for i, note := range n.list {
		if !n.used[i] && note.Of == of && fits(note) {
			n.used[i] = true
			return note, true
		}
	}
	return Note{}, false
}

// steps reads a page as a script, and tells which notes belong to none of its lines.
func steps(p *Page, list []Note) (script []step, stale []string) {
	n := &notes{list, make([]bool, len(list))}
	for _, b := range p.Blocks {
		if b.Lang == "go" {
			continue // compiled, see Compiled
		}
		shell := programs.MatchString(b.Lines[0])
		whole, is := n.take(b.Lines[0], func(n Note) bool { return n.File != "" || n.Skip != "" && !shell })
		if is {
			script = append(script, step{kind: file, line: b.Line, section: b.Section, text: strings.Join(b.Lines, "\n") + "\n", note: whole})
			continue
		}
		script = append(script, n.block(b)...)
	}
	for i, used := range n.used {
		if !used {
			stale = append(stale, fmt.Sprintf("%s: the note of %q belongs to no line of the page: write it as the page does, or drop it", p.Path, list[i].Of))
		}
	}
	return script, stale
}

// block reads a block line by line: commands, some with a prompt before them, and what they print.
func (n *notes) block(b Block) (script []step) {
	prompt := false
	for i := 0; i < len(b.Lines); i++ {
		s := step{kind: output, line: b.Line + i, section: b.Section, exact: prompt}
		text, asked := strings.CutPrefix(b.Lines[i], "$ ")
		for strings.HasSuffix(text, `\`) && i+1 < len(b.Lines) {
			i++
			text += "\n" + b.Lines[i]
		}
		prompt = prompt || asked
		bare := comment.ReplaceAllString(text, "")
		switch m := makes.FindStringSubmatch(bare); {
		case strings.TrimSpace(bare) == "":
			continue
		case m != nil:
			s.kind, s.text = target, m[1]
		case asked || programs.MatchString(bare):
			s.kind, s.text = command, bare
		default:
			s.text = text
		}
		s.note, _ = n.take(continued.ReplaceAllString(strings.TrimSpace(bare), " "), func(n Note) bool { return n.File == "" })
		script = append(script, s)
	}
	return script
}
