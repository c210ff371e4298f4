package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// try gets each module from the proxy into a program of its own and compiles its packages, and
// installs the service. Modules of others come from the machine's cache where it has them. What is
// fetched goes to a cache of its own: a machine never sees a version that may not be the last.
func (r *release) try(w io.Writer) error {
	known, err := output(r.folder, nil, "go", "env", "GOPROXY", "GOMODCACHE")
	if err != nil {
		return err
	}
	public, cache, _ := strings.Cut(known, "\n")
	environment := []string{
		"GOWORK=off",
		"GOPROXY=file://" + filepath.ToSlash(r.proxy) +
			",file://" + filepath.ToSlash(cache) + "/cache/download," + public,
		"GOSUMDB=off", // it knows no trial, and go.sum of the tree has verified the others
		"GOMODCACHE=" + r.folder + "/modules",
		"GOFLAGS=-modcacherw -trimpath", // objects do not depend on where that cache is
		"GOBIN=" + r.folder + "/bin",
	}
	step := func(folder string, args ...string) error {
		start := time.Now()
		if _, err := output(folder, environment, "go", args...); err != nil {
			return err
		}
		_, err := fmt.Fprintf(w, "%4.1f s: go %s\n", time.Since(start).Seconds(), strings.Join(args, " "))
		return err
	}
	for _, s := range r.modules {
		if !s.released {
			continue
		}
		program := filepath.Join(r.folder, "programs", s.folder)
		if err := os.MkdirAll(program, 0o755); err != nil {
			return err
		}
		if _, err := output(program, environment, "go", "mod", "init", "program"); err != nil {
			return err
		}
		if err := step(program, "get", s.path()+"/...@"+r.version); err != nil {
			return err
		}
		if err := step(program, "build", s.path()+"/..."); err != nil {
			return err
		}
	}
	return step(r.folder, "install", library+"/hybrid/service@"+r.version)
}
