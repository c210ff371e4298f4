package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const version = "v0.0.1-trial"

// TestTags: the tags of a release name one commit, with the notes. In it no released module has a
// replace. That the modules compile is tried by .ci/run.
func TestTags(t *testing.T) {
	repository := scratch(t, "\n## "+version+"\n\n### Added\n\n- A trial.\n")
	notes, err := notesOf(repository, version)
	if err != nil {
		t.Fatal(err)
	}
	r, err := prepare(repository, t.TempDir(), version)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.tag(repository, notes); err != nil {
		t.Fatal(err)
	}
	released := []string{
		"hybrid/grpclimit/", "hybrid/otel/", "hybrid/prometheus/", "hybrid/rules/sqlrules/",
		"hybrid/rules/", "hybrid/rules/xdsrules/", "hybrid/service/", "", // in the order of git
	}
	var tags []string
	for _, folder := range released {
		tags = append(tags, folder+version)
		gomod := git(t, repository, "show", folder+version+":"+folder+"go.mod")
		if strings.Contains(gomod, "replace") || strings.Contains(gomod, "ration v0.0.0\n") {
			t.Errorf("%s of the release:\n%s", folder+"go.mod", gomod)
		}
		notes := git(t, repository, "tag", "-l", "--format=%(contents:body)", folder+version)
		if want := "### Added\n\n- A trial."; strings.TrimSpace(notes) != want {
			t.Errorf("tag %s has notes %q, want %q", folder+version, notes, want)
		}
	}
	commit := git(t, repository, "rev-parse", version+"^{}")
	if got := git(t, repository, "tag", "--points-at", commit); got != strings.Join(tags, "\n") {
		t.Errorf("the release's tags are\n%s\nwant\n%s", got, strings.Join(tags, "\n"))
	}
	parent := git(t, repository, "rev-parse", commit+"^")
	if head := git(t, repository, "rev-parse", "HEAD"); parent != head {
		t.Errorf("the release is on top of %s, and HEAD is %s", parent, head)
	}
	wantError(t, run(t.Output(), repository, version), "it has a tag")
}

// TestRefused: what has no notes, or is no version of this module, leaves nothing.
func TestRefused(t *testing.T) {
	repository := scratch(t, "\n## v2.0.0\n\nNotes.\n\n## v0.0.1\n\n## v0.0.2\n\nNotes.\n")
	for version, want := range map[string]string{
		"0.0.2":  "want v0.x.y",
		"v0.2":   "want v0.x.y",
		"v2.0.0": "want v0.x.y",
		"v0.0.1": "no notes",
		"v0.0.3": "no notes",
	} {
		wantError(t, run(t.Output(), repository, version), want)
	}
	if tags := git(t, repository, "tag"); tags != "" {
		t.Errorf("tags %s", tags)
	}
}

// scratch is a clone of this repository's HEAD, without its tags, whose CHANGELOG.md has changes.
func scratch(t *testing.T, changes string) string {
	t.Helper()
	repository := filepath.Join(t.TempDir(), "scratch")
	git(t, ".", "clone", "-q", "--no-tags", git(t, ".", "rev-parse", "--show-toplevel"), repository)
	for key, value := range map[string]string{"user.name": "trial", "user.email": "trial@localhost"} {
		git(t, repository, "config", key, value)
	}
	changelog := filepath.Join(repository, "CHANGELOG.md")
	if err := os.WriteFile(changelog, []byte(changes), 0o644); err != nil {
		t.Fatal(err)
	}
	git(t, repository, "commit", "-q", "-a", "-m", "changes")
	return repository
}

func git(t *testing.T, folder string, args ...string) string {
	t.Helper()
	out, err := output(folder, nil, "git", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func wantError(t *testing.T, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("error %v, want one with %q", err, part)
	}
}
