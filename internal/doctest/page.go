package doctest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Page is a document in Markdown, as far as it can be wrong.
type Page struct {
	Path    string // below the root of the checkout
	Blocks  []Block
	Spans   []Span          // `code` within the text
	Links   []Span          // what the text links to
	Anchors map[string]bool // of its headings
}

// Block is a block of code: fenced, or indented by four columns.
type Block struct {
	Line  int    // of its first line, counted from 1
	Lang  string // of the fence, "" when there is none
	Lines []string
}

// Span is a piece of one line.
type Span struct {
	Line int
	Text string
}

var (
	fence   = regexp.MustCompile("^ *```([a-z]*)$")
	item    = regexp.MustCompile(`^( *)([-*]|\d+\.) +`)
	code    = regexp.MustCompile("`([^`]+)`")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`^#+ +(.*)$`)
	noise   = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// Read reads the page at path below root.
func Read(root, path string) (*Page, error) {
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return nil, err
	}
	return parse(path, string(text)), nil
}

// parse reads a page. An indented block follows an empty line, four columns to the right of its list item.
func parse(path, text string) *Page {
	p := &Page{Path: path, Anchors: map[string]bool{}}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	margin, empty := 0, true
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		indent := len(line) - len(strings.TrimLeft(line, " "))
		end := i + 1
		if line != "" && indent < margin {
			margin = 0
		}
		switch f := fence.FindStringSubmatch(line); {
		case f != nil:
			for end < len(lines) && !fence.MatchString(lines[end]) {
				end++
			}
			p.Blocks = append(p.Blocks, block(i+2, f[1], lines[i+1:end]))
			i, empty = end, true
			continue
		case strings.TrimSpace(line) == "":
			empty = true
			continue
		}
		if empty && indent >= margin+4 {
			for end < len(lines) && (strings.TrimSpace(lines[end]) == "" || strings.HasPrefix(lines[end], strings.Repeat(" ", margin+4))) {
				end++
			}
			p.Blocks = append(p.Blocks, block(i+1, "", lines[i:end]))
			i = end - 1
			continue
		}
		empty = false
		if m := item.FindString(line); m != "" {
			margin = len(m)
		}
		if m := heading.FindStringSubmatch(line); m != nil {
			p.Anchors[strings.ReplaceAll(strings.ToLower(noise.ReplaceAllString(m[1], "")), " ", "-")] = true
		}
		for _, m := range code.FindAllStringSubmatch(line, -1) {
			p.Spans = append(p.Spans, Span{i + 1, m[1]})
		}
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(line, ""), -1) {
			p.Links = append(p.Links, Span{i + 1, m[1]})
		}
	}
	return p
}

// block is a block without its indentation and without empty lines at its end.
func block(line int, lang string, lines []string) Block {
	indent := -1
	for _, l := range lines {
		if n := len(l) - len(strings.TrimLeft(l, " ")); l != "" && (indent < 0 || n < indent) {
			indent = n
		}
	}
	b := Block{Line: line, Lang: lang}
	for _, l := range lines {
		b.Lines = append(b.Lines, l[min(max(indent, 0), len(l)):])
	}
	for len(b.Lines) > 0 && strings.TrimSpace(b.Lines[len(b.Lines)-1]) == "" {
		b.Lines = b.Lines[:len(b.Lines)-1]
	}
	return b
}

// step is a line of a page that is run or looked for, or a block that a script takes as a whole.
type step struct {
	line    int
	text    string
	command bool
	exact   bool   // output below its own command: its numbers count
	block   *Block // that begins here
}

var (
	programs = regexp.MustCompile(`^(ringfence|ringfence-pulsar|make|printf|echo|seq|tail|export|kill|cd|curl|kcat|psql|redis-cli|mariadb|pulsar-admin|pulsar-client|[A-Z_]+=\S+)( |$)`)
	comment  = regexp.MustCompile(`\s+(#|--)\s.*$`)
)

// steps are the lines of all blocks but those of Go, which is compiled, see Compiled.
func (p *Page) steps() (all []step) {
	for _, b := range p.Blocks {
		if b.Lang == "go" {
			continue
		}
		first, prompt := &b, false
		for i := 0; i < len(b.Lines); i++ {
			s := step{line: b.Line + i, block: first, exact: prompt}
			text, asked := strings.CutPrefix(b.Lines[i], "$ ")
			for strings.HasSuffix(text, `\`) && i+1 < len(b.Lines) {
				i++
				text = strings.TrimSuffix(text, `\`) + strings.TrimSpace(b.Lines[i])
			}
			s.text = comment.ReplaceAllString(text, "")
			s.command = asked || programs.MatchString(s.text)
			prompt = prompt || asked
			if strings.TrimSpace(s.text) != "" || first != nil {
				all = append(all, s)
			}
			first = nil
		}
	}
	return all
}
