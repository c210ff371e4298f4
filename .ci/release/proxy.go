package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

// serve adds s, as the clone has it now, to the proxy, and its sums to r.sums. The layout is that
// of https://go.dev/ref/mod#goproxy-protocol.
func (r *release) serve(s *sibling) error {
	escaped, err := module.EscapePath(s.path())
	if err != nil {
		return err
	}
	name := filepath.Join(r.proxy, escaped, "@v", r.version)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if err := r.archive(s, name+".zip"); err != nil {
		return err
	}
	gomod, err := os.ReadFile(filepath.Join(r.clone, s.folder, "go.mod"))
	if err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": r.version, "Time": time.Now()})
	if err != nil {
		return err
	}
	for file, text := range map[string][]byte{
		filepath.Join(filepath.Dir(name), "list"): []byte(r.version + "\n"),
		name + ".mod":  gomod,
		name + ".info": info,
	} {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return err
		}
	}
	version := module.Version{Path: s.path(), Version: r.version}
	if r.sums[version], err = dirhash.HashZip(name+".zip", dirhash.Hash1); err != nil {
		return err
	}
	version.Version += "/go.mod"
	r.sums[version], err = dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(gomod)), nil
	})
	return err
}

// archive writes what the go command would make of s at a tag. The clone has no commit yet.
func (r *release) archive(s *sibling, name string) error {
	if _, err := output(r.clone, nil, "git", "add", "--update"); err != nil {
		return err
	}
	tree, err := output(r.clone, nil, "git", "write-tree")
	if err != nil {
		return err
	}
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	version := module.Version{Path: s.path(), Version: r.version}
	return errors.Join(zip.CreateFromVCS(file, version, r.clone, tree, s.folder), file.Close())
}
