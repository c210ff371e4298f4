// Package measure judges a limiter against an ideal: one exact central
// limit that is fed the same requests (package ideal).
//
// Everything here is arithmetic on what it is told, at a constant cost for
// each request; times count from any fixed moment. Times passed to one value
// must not go back.
package measure
