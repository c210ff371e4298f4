package remote

import (
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// remedies are what to do where a server answers that it can serve nobody, by the first
// word of its error.
var remedies = map[string]string{
	"OOM":         "raise maxmemory or free memory",
	"NOPERM":      "give ration's user the rights of docs/security.md, to commands by their own names",
	"WRONGPASS":   "check the user and the password of the client",
	"NOAUTH":      "give the client a user and a password",
	"READONLY":    "point the client at the master, not at a replica",
	"MISCONF":     "the server cannot write its snapshot: look at its disk",
	"NOREPLICAS":  "the master has too few replicas: see min-replicas-to-write",
	"MASTERDOWN":  "this is a replica without its master",
	"CLUSTERDOWN": "the cluster does not serve all slots",
	"LOADING":     "the server has just started and loads its data",
	"BUSY":        "a script runs for too long: see SCRIPT KILL",
}

// noRight are in answers to calls, and to those of a script, that the user may not make, or that
// the server has under another name: of Redis, of Redis from 7.2 on, and of Valkey.
var noRight = []string{
	"unknown command", "Unknown Redis command", "Unknown command", "can't run this command",
	"ACL failure in script",
}

// unable returns what to do about an answer that says that a server can serve nobody,
// or nothing if err is another one.
func unable(err error) string {
	var answer redis.Error
	if !errors.As(err, &answer) {
		return ""
	}
	text := answer.Error()
	word, _, _ := strings.Cut(text, " ")
	for _, phrase := range noRight {
		if strings.Contains(text, phrase) {
			word = "NOPERM"
		}
	}
	return remedies[word]
}
