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
	Line    int    // of its first line of code, counted from 1
	Lang    string // of the fence, "" when there is none
	Section string // the heading above it
	Lines   []string
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

// parse goes through a page line by line. An indented block begins after an empty line, and four
// columns to the right of the list item that it stands in.
func parse(path, text string) *Page {
	p := &Page{Path: path, Anchors: map[string]bool{}}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	section, margin, empty := "", 0, true
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		indent := len(line) - len(strings.TrimLeft(line, " "))
		if line != "" && indent < margin {
			margin = 0
		}
		if f := fence.FindStringSubmatch(line); f != nil {
			end := i + 1
			for end < len(lines) && !fence.MatchString(lines[end]) {
				end++
			}
			p.add(i+2, f[1], section, lines[i+1:end])
			i, empty = end, true
			continue
		}
		if strings.TrimSpace(line) == "" {
			empty = true
			continue
		}
		if empty && indent >= margin+4 {
			end := i + 1
			for end < len(lines) && (strings.TrimSpace(lines[end]) == "" || strings.HasPrefix(lines[end], strings.Repeat(" ", margin+4))) {
				end++
			}
			p.add(i+1, "", section, lines[i:end])
			i = end - 1
			continue
		}
		empty = false
		if m := item.FindString(line); m != "" {
			margin = len(m)
		}
		if m := heading.FindStringSubmatch(line); m != nil {
			section = m[1]
			p.Anchors[anchor(section)] = true
		}
		p.prose(i+1, line)
	}
	return p
}

// add keeps a block without its indentation and without empty lines at its end.
func (p *Page) add(line int, lang, section string, lines []string) {
	b := Block{Line: line, Lang: lang, Section: section}
	indent := -1
	for _, l := range lines {
		if n := len(l) - len(strings.TrimLeft(l, " ")); l != "" && (indent < 0 || n < indent) {
			indent = n
		}
	}
	for _, l := range lines {
		b.Lines = append(b.Lines, l[min(max(indent, 0), len(l)):])
	}
	for len(b.Lines) > 0 && strings.TrimSpace(b.Lines[len(b.Lines)-1]) == "" {
		b.Lines = b.Lines[:len(b.Lines)-1]
	}
	p.Blocks = append(p.Blocks, b)
}

func (p *Page) prose(n int, line string) {
	for _, m := range code.FindAllStringSubmatch(line, -1) {
		p.Spans = append(p.Spans, Span{n, m[1]})
	}
	for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(line, ""), -1) {
		p.Links = append(p.Links, Span{n, m[1]})
	}
}

// anchor is the fragment that leads to a heading.
func anchor(title string) string {
	return strings.ReplaceAll(strings.ToLower(noise.ReplaceAllString(title, "")), " ", "-")
}
