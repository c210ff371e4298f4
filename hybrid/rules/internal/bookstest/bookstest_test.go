package bookstest_test

import (
	"testing"

	"github.com/seed13b07268/ration/hybrid/rules/internal/bookstest"
)

func TestMemory(t *testing.T) {
	bookstest.Test(t, func(*testing.T) bookstest.State { return bookstest.NewMemory() })
}
