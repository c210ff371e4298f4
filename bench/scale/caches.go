package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Cache is one of those that the first core has, other than of instructions.
type Cache struct {
	Level int
	Bytes float64
}

// caches are those of a Linux machine, the nearest first. Of others nothing is known.
func caches() (all []Cache) {
	read := func(dir, name string) string {
		text, _ := os.ReadFile(filepath.Join(dir, name))
		return strings.TrimSpace(string(text))
	}
	dirs, _ := filepath.Glob("/sys/devices/system/cpu/cpu0/cache/index*")
	for _, dir := range dirs {
		var c Cache
		var unit string
		_, err := fmt.Sscanf(read(dir, "level")+" "+read(dir, "size"), "%d %g%1s",
			&c.Level, &c.Bytes, &unit)
		if err != nil || read(dir, "type") == "Instruction" {
			continue
		}
		for _, u := range "KMG" {
			c.Bytes *= 1024
			if unit == string(u) {
				break
			}
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b Cache) int { return a.Level - b.Level })
	return all
}
