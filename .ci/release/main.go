// Release tags the library and its modules, so that they can be fetched:
//
//	go run ./.ci/release              # tries it
//	go run ./.ci/release -tag v0.1.0  # tries it, then tags this repository
//
// In the tree a module finds its siblings in their folders, by replace. A user's go command ignores
// a replace, and go install refuses a module that has one. So a release is a commit of its own on
// top of HEAD, in which each module requires its siblings by version. Only tags name this commit.
//
// A clone has the change. A folder is laid out from it as a module proxy, as the public proxy does
// from tags. From that folder programs outside of the tree get each module and compile its
// packages, and go install builds the service. Only then come the commit and the tags.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	version := flag.String("tag", "", "tag this repository with a `version` of CHANGELOG.md")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(os.Stdout, ".", *version); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// run tries a release of HEAD of the repository that folder is in, and tags it if a version is
// given.
func run(w io.Writer, folder, version string) error {
	root, err := output(folder, nil, "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	temporary, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	if version == "" {
		r, err := prepare(root, temporary, "v0.0.0-trial")
		if err != nil {
			return err
		}
		return r.try(w)
	}
	notes, err := notesOf(root, version)
	if err != nil {
		return err
	}
	r, err := prepare(root, temporary, version)
	if err != nil {
		return err
	}
	if err := r.try(w); err != nil {
		return err
	}
	tags, err := r.tag(root, notes)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, "tagged; to publish: git push origin", strings.Join(tags, " "))
	return err
}
