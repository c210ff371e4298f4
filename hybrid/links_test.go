package hybrid_test

import (
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// The forms in which a text names a page: links of Markdown, and in comments the path from the
// root, or the address at which the page is published.
var (
	markdownLink  = regexp.MustCompile(`\]\(\s*<?([^)\s>]+)`)
	pageOfComment = regexp.MustCompile(`\b(?:docs/|(?:README|CONTRIBUTING|CHANGELOG)\.md)[\w./#-]*`)
	inlineCode    = regexp.MustCompile("`[^`]*`")
)

// TestLinks: each relative link of a page, and each page that a comment of Go names, is a file
// of the repository, and each anchor is a heading of the page.
func TestLinks(t *testing.T) {
	long(t)
	l := links{files: map[string]bool{}, anchors: map[string]map[string]bool{}}
	out, err := exec.Command("git", "-C", "..", "ls-files").Output()
	if err != nil {
		t.Skip("not a checkout of git: ", err)
	}
	names := strings.Fields(string(out))
	for _, name := range names {
		l.files[name] = true
		for folder := path.Dir(name); folder != "."; folder = path.Dir(folder) {
			l.files[folder] = true
		}
	}
	found := 0
	for _, name := range names {
		switch path.Ext(name) {
		case ".md":
			found += l.page(t, name)
		case ".go":
			found += l.comments(t, name)
		}
	}
	if found < 100 {
		t.Errorf("%d links are found in %d files", found, len(names))
	}
}

// links has what a link may lead to.
type links struct {
	files   map[string]bool            // files and folders, from the root of the repository
	anchors map[string]map[string]bool // of each page that was asked for
}

// page checks the links of a page.
func (l links) page(t *testing.T, name string) (found int) {
	t.Helper()
	for i, line := range prose(t, name) {
		for _, link := range markdownLink.FindAllStringSubmatch(inlineCode.ReplaceAllString(line, ""), -1) {
			target := link[1]
			if strings.Contains(target, ":") {
				continue // of another site
			}
			found++
			file, anchor, _ := strings.Cut(target, "#")
			if file == "" {
				file = name
			} else {
				file = path.Join(path.Dir(name), file)
			}
			l.check(t, name+":"+strconv.Itoa(i+1), file, anchor)
		}
	}
	return found
}

// comments checks the pages that comments of a file of Go name.
func (l links) comments(t *testing.T, name string) (found int) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "../"+name, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Comments {
		for _, target := range pageOfComment.FindAllString(group.Text(), -1) {
			found++
			page, anchor, _ := strings.Cut(strings.TrimRight(target, "./"), "#")
			l.check(t, files.Position(group.Pos()).String(), page, anchor)
		}
	}
	return found
}

func (l links) check(t *testing.T, at, file, anchor string) {
	t.Helper()
	switch {
	case !l.files[file]:
		t.Errorf("%s: %s is not in the repository", at, file)
	case anchor == "":
	case path.Ext(file) != ".md":
		t.Errorf("%s: %s is no page, and has no #%s", at, file, anchor)
	case !l.headings(t, file)[anchor]:
		t.Errorf("%s: %s has no heading #%s", at, file, anchor)
	}
}

// headings returns the anchors that GitHub gives to the headings of a page.
func (l links) headings(t *testing.T, name string) map[string]bool {
	t.Helper()
	if l.anchors[name] == nil {
		anchors := map[string]bool{}
		for _, line := range prose(t, name) {
			text := strings.TrimLeft(line, "#")
			if level := len(line) - len(text); level == 0 || level > 6 || !strings.HasPrefix(text, " ") {
				continue
			}
			anchor := slug(strings.TrimSpace(text))
			for n := 1; anchors[anchor]; n++ {
				anchor = slug(strings.TrimSpace(text)) + "-" + strconv.Itoa(n)
			}
			anchors[anchor] = true
		}
		l.anchors[name] = anchors
	}
	return l.anchors[name]
}

// TestTables: each table of a page is in one piece, since rows without a heading are shown as text.
func TestTables(t *testing.T) {
	long(t)
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	rule := regexp.MustCompile(`^\|[-:|]+\|$`)
	tables := 0
	for _, page := range append(pages, "../README.md", "../CONTRIBUTING.md") {
		lines := prose(t, strings.TrimPrefix(filepath.ToSlash(page), "../"))
		for i, line := range lines {
			if !strings.HasPrefix(line, "|") || strings.HasPrefix(lines[i-1], "|") {
				continue
			}
			tables++
			if !rule.MatchString(lines[i+1]) {
				t.Errorf("%s:%d: a row that belongs to no table", page, i+1)
			}
		}
	}
	if tables < 30 {
		t.Errorf("%d tables are found in %d pages", tables, len(pages))
	}
}

// slug is GitHub's: small letters, digits, hyphens and underscores stay, spaces become hyphens,
// and all else goes. Of a link its text stays.
func slug(heading string) string {
	heading = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(heading, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// prose returns the lines of a page, with those of fenced code empty.
func prose(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile("../" + name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	fenced := false
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence || fenced {
			lines[i] = ""
		}
		fenced = fenced != fence
	}
	return lines
}

func TestSlug(t *testing.T) {
	for heading, want := range map[string]string{
		"Why I1 holds":                    "why-i1-holds",
		"`Allow`, and [what](a.md) waits": "allow-and-what-waits",
		"1. The burst: C++, 50 %":         "1-the-burst-c-50-",
		"0.1.0 - 2026-11-21":              "010---2026-11-21",
	} {
		if got := slug(heading); got != want {
			t.Errorf("slug(%q) is %q, not %q", heading, got, want)
		}
	}
}
