package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

const library = "github.com/seed13b07268/ration"

// unreleased are the modules for work in the tree. They keep their replaces.
var unreleased = []string{
	".ci/release", ".ci/vet", "bench", "hybrid/prometheus/internal/proofs/queries",
	"hybrid/service/deploy", "hybrid/service/internal/proofs/peer",
}

type release struct {
	version string
	folder  string                    // what follows is in it
	clone   string                    // of the repository, where the commit is made
	proxy   string                    // what is laid out of the clone
	modules []*sibling                // each behind those that it requires
	sums    map[module.Version]string // of what the proxy serves, as in go.sum
}

// sibling is a module of the tree.
type sibling struct {
	folder   string // from the root, with slashes; "" is the library
	file     *modfile.File
	released bool
}

func (s *sibling) path() string { return s.file.Module.Mod.Path }

func (s *sibling) requires(path string) bool {
	return slices.ContainsFunc(s.file.Require, func(q *modfile.Require) bool {
		return q.Mod.Path == path
	})
}

// tag is the name that the go command looks for.
func (s *sibling) tag(version string) string {
	if s.folder == "" {
		return version
	}
	return s.folder + "/" + version
}

// notesOf returns what CHANGELOG.md of HEAD says of a version that can be released.
func notesOf(root, version string) (string, error) {
	if semver.Canonical(version) != version || semver.Compare(version, "v2") >= 0 {
		return "", fmt.Errorf("version %q: want v0.x.y or v1.x.y", version)
	}
	tags, err := output(root, nil, "git", "tag", "--list", version)
	if err != nil {
		return "", err
	}
	if tags != "" {
		return "", fmt.Errorf("version %s: it has a tag, and a published version never changes", version)
	}
	changes, err := output(root, nil, "git", "show", "HEAD:CHANGELOG.md")
	if err != nil {
		return "", err
	}
	_, notes, _ := strings.Cut(changes+"\n", "\n## "+version+"\n")
	notes, _, _ = strings.Cut(notes, "\n## ")
	if notes = strings.TrimSpace(notes); notes == "" {
		return "", fmt.Errorf("version %s: CHANGELOG.md of HEAD has no notes under \"## %[1]s\"", version)
	}
	return notes, nil
}

// prepare clones HEAD into a folder and changes there what a release changes, module by module. The
// proxy serves a module before the next one is changed, whose go.sum needs its sums.
func prepare(root, folder, version string) (*release, error) {
	r := &release{
		version: version, folder: folder, clone: filepath.Join(folder, "clone"),
		proxy: filepath.Join(folder, "proxy"), sums: map[module.Version]string{},
	}
	if _, err := output(root, nil, "git", "clone", "-q", "--shared", root, r.clone); err != nil {
		return nil, err
	}
	if err := r.read(); err != nil {
		return nil, err
	}
	for _, s := range r.modules {
		if err := r.pin(s); err != nil {
			return nil, err
		}
		if !s.released {
			continue
		}
		if err := r.serve(s); err != nil {
			return nil, fmt.Errorf("module %s: %w", s.path(), err)
		}
	}
	return r, nil
}

// read reads the go.mod of each module.
func (r *release) read() error {
	files, err := output(r.clone, nil, "git", "ls-files", "go.mod", "*/go.mod")
	if err != nil {
		return err
	}
	byPath := map[string]*sibling{}
	var paths []string
	for name := range strings.Lines(files) {
		name = strings.TrimSpace(name)
		text, err := os.ReadFile(filepath.Join(r.clone, name))
		if err != nil {
			return err
		}
		file, err := modfile.Parse(name, text, nil)
		if err != nil {
			return err
		}
		folder := strings.TrimSuffix(strings.TrimSuffix(name, "go.mod"), "/")
		s := &sibling{folder: folder, file: file, released: !slices.Contains(unreleased, folder)}
		byPath[s.path()] = s
		paths = append(paths, s.path())
	}
	var add func(string)
	add = func(path string) {
		s := byPath[path]
		if s == nil || slices.Contains(r.modules, s) {
			return
		}
		for _, required := range s.file.Require {
			add(required.Mod.Path)
		}
		r.modules = append(r.modules, s)
	}
	for _, path := range paths {
		add(path)
	}
	return nil
}

// pin makes s require its siblings by version, with their sums, instead of by folder.
func (r *release) pin(s *sibling) error {
	for _, other := range r.modules {
		if !s.requires(other.path()) {
			continue
		}
		if err := s.file.AddRequire(other.path(), r.version); err != nil {
			return err
		}
	}
	if s.released {
		for _, replace := range slices.Clone(s.file.Replace) {
			if err := s.file.DropReplace(replace.Old.Path, replace.Old.Version); err != nil {
				return err
			}
		}
		if err := r.addSums(s); err != nil {
			return err
		}
	}
	s.file.Cleanup()
	text, err := s.file.Format()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.clone, s.folder, "go.mod"), text, 0o644)
}

// addSums adds the sums of the siblings that s requires to its go.sum, in the order of go mod tidy.
func (r *release) addSums(s *sibling) error {
	name := filepath.Join(r.clone, s.folder, "go.sum")
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	sums := map[module.Version]string{}
	for line := range strings.Lines(string(text)) {
		var v module.Version
		var sum string
		if _, err := fmt.Sscan(line, &v.Path, &v.Version, &sum); err != nil {
			return fmt.Errorf("%s: line %q: %w", name, line, err)
		}
		sums[v] = sum
	}
	for v, sum := range r.sums {
		if s.requires(v.Path) {
			sums[v] = sum
		}
	}
	versions := slices.Collect(maps.Keys(sums))
	module.Sort(versions)
	var lines strings.Builder
	for _, v := range versions {
		fmt.Fprintln(&lines, v.Path, v.Version, sums[v])
	}
	return os.WriteFile(name, []byte(lines.String()), 0o644)
}

// tag commits the release in the clone, and gives root the commit by its tags, with the notes.
func (r *release) tag(root, notes string) (tags []string, err error) {
	for _, key := range []string{"user.name", "user.email"} {
		value, err := output(root, nil, "git", "config", "--get", key)
		if err != nil {
			return nil, err
		}
		if _, err := output(r.clone, nil, "git", "config", key, value); err != nil {
			return nil, err
		}
	}
	_, err = output(r.clone, nil, "git", "commit", "-q", "-a", "-m", "release "+r.version)
	if err != nil {
		return nil, err
	}
	for _, s := range r.modules {
		if !s.released {
			continue
		}
		name := s.tag(r.version)
		message := s.path() + " " + r.version + "\n\n" + notes
		_, err := output(r.clone, nil, "git", "tag", "-a", "--cleanup=verbatim", "-m", message, name)
		if err != nil {
			return nil, err
		}
		tags = append(tags, name)
	}
	_, err = output(r.clone, nil, "git", append([]string{"push", "-q", "--atomic", root}, tags...)...)
	return tags, err
}

// output runs a command in a folder and returns what it prints, but for the last line's end.
func output(folder string, env []string, name string, args ...string) (string, error) {
	c := exec.Command(name, args...)
	c.Dir, c.Env = folder, append(os.Environ(), env...)
	var problems strings.Builder
	c.Stderr = &problems
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", c, err, out, problems.String())
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}
