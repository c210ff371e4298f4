// Package gauge counts what people look at: how long things take, which names come
// most often, and how evenly something is divided.
//
// Everything here is arithmetic of bounded size. Nothing here reads a clock, or is
// safe for concurrent use.
package gauge
