package main

import (
	"bufio"
	"cmp"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// notMeasured are peers that the module proxy would not give, and why. Now
// there are none.
var notMeasured []string

// newMachine describes this one.
func newMachine(s *Server) Machine {
	where := ", started for this run on the same machine, without persistence"
	if s.process == nil {
		where = ", the one that -redis names"
	}
	return Machine{
		CPU: cpuModel(), Kernel: kernel(), Cores: runtime.NumCPU(), Procs: runtime.GOMAXPROCS(0),
		Go: runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH, Redis: s.Version + where,
		Command: commandLine(os.Args[1:]),
		Date:    time.Now().UTC().Truncate(time.Minute),
		Modules: modules(), NotMeasured: notMeasured,
	}
}

// commandLine is what to type, without the folders of this machine.
func commandLine(args []string) string {
	words := []string{"go run ."}
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		switch {
		case ok && filepath.IsAbs(value):
			arg = name + "=" + filepath.Base(value)
		case filepath.IsAbs(arg):
			arg = filepath.Base(arg)
		}
		if strings.ContainsAny(arg, " |()*$") {
			arg = "'" + arg + "'"
		}
		words = append(words, arg)
	}
	return strings.Join(words, " ")
}

func cpuModel() string {
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer file.Close()
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		name, value, _ := strings.Cut(scanner.Text(), ":")
		if strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func kernel() string {
	text, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return runtime.GOOS
	}
	return runtime.GOOS + " " + strings.TrimSpace(string(text))
}

// modules are the versions of all subjects, from this program itself.
func modules() []Module {
	wanted := map[string]bool{}
	for _, s := range slices.Concat([]Subject{ration}, peers, tables) {
		wanted[s.Module] = true
	}
	for _, l := range locals {
		wanted[l.Module] = true
	}
	var list []Module
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	for _, m := range info.Deps {
		if !wanted[m.Path] {
			continue
		}
		version := m.Version
		if m.Replace != nil || m.Version == "(devel)" { // by go.mod, or by go.work
			version = "this tree"
		}
		list = append(list, Module{m.Path, version})
	}
	slices.SortFunc(list, func(a, b Module) int { return cmp.Compare(a.Path, b.Path) })
	return list
}
