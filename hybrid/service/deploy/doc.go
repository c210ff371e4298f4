// Package deploy has what it takes to run the service: an image, a chart of Helm, a compose file, a
// unit of systemd, and a dashboard of Grafana.
//
// Its tests hold these files to the programs that read them, by libraries of theirs, and to the
// service, which they build as the Containerfile does. A module of its own, and outside of go.work:
// nobody else wants the versions of Kubernetes' libraries. docs/deploying.md says how to use the
// files.
package deploy
