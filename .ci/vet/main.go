// Command vet is go vet that reads what packages import instead of compiling it: for a platform on
// which nothing has been built, that takes a tenth of the time.
package main

import (
	"golang.org/x/tools/go/analysis/multichecker"
	"golang.org/x/tools/go/analysis/suite/vet"
)

func main() { multichecker.Main(vet.Suite...) }
