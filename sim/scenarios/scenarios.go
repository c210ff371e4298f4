// Package scenarios is the library of scenarios that come with the simulator.
package scenarios

import (
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/seed13b07268/ration/sim/scenario"
)

//go:embed *.yaml access.json trips.txt
var files embed.FS

// Names are the names of all scenarios, in order.
func Names() (names []string) {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(fmt.Sprintf("scenarios: the embedded folder cannot be read: %v", err))
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".yaml"); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Text is the scenario as it was written.
func Text(name string) (string, error) {
	text, err := files.ReadFile(name + ".yaml")
	if err != nil {
		return "", fmt.Errorf("scenarios: %q is not one of them", name)
	}
	return string(text), nil
}

// Open returns the scenario with this name, unresolved.
func Open(name string) (*scenario.Scenario, error) {
	text, err := Text(name)
	if err != nil {
		return nil, err
	}
	return scenario.Parse([]byte(text), func(name string) (io.ReadCloser, error) { return files.Open(name) })
}
