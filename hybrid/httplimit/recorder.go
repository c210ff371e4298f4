package httplimit

import (
	"bufio"
	"cmp"
	"io"
	"net"
	"net/http"
)

// A recorder is a ResponseWriter that counts what is written.
type recorder struct {
	http.ResponseWriter
	head   bool // no body is sent
	taken  bool // by Hijack
	status int
	bytes  int64
}

// record wraps w. Code that asks a ResponseWriter for its Hijacker finds one where there is one.
func record(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *recorder) {
	rec := &recorder{ResponseWriter: w, head: r.Method == http.MethodHead}
	if h, ok := w.(http.Hijacker); ok {
		return hijacker{rec, h}, rec
	}
	return rec, rec
}

// end is what became of the response.
func (w *recorder) end(completed bool) End {
	e := End{Status: w.status, Header: w.Header(), Bytes: w.bytes, Completed: completed}
	if completed && !w.taken { // net/http sends a header for a handler that has written nothing
		e.Status = cmp.Or(e.Status, http.StatusOK)
	}
	return e
}

// Unwrap is for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *recorder) WriteHeader(status int) {
	// Others of the ones are sent ahead of the header.
	if w.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(b []byte) (int, error) {
	n, err := w.ResponseWriter.Write(b)
	w.wrote(int64(n))
	return n, err
}

func (w *recorder) WriteString(s string) (int, error) {
	n, err := io.WriteString(w.ResponseWriter, s)
	w.wrote(int64(n))
	return n, err
}

// ReadFrom lets net/http send files without copying them.
func (w *recorder) ReadFrom(r io.Reader) (int64, error) {
	n, err := io.Copy(w.ResponseWriter, r)
	w.wrote(n)
	return n, err
}

func (w *recorder) wrote(n int64) {
	w.status = cmp.Or(w.status, http.StatusOK)
	if !w.head {
		w.bytes += n
	}
}

// FlushError is for http.ResponseController.
func (w *recorder) FlushError() error {
	err := http.NewResponseController(w.ResponseWriter).Flush()
	if err == nil {
		w.status = cmp.Or(w.status, http.StatusOK)
	}
	return err
}

// Flush implements http.Flusher.
func (w *recorder) Flush() { _ = w.FlushError() }

// A hijacker is a recorder whose connection the handler may take over.
type hijacker struct {
	*recorder
	from http.Hijacker
}

// Hijack implements http.Hijacker.
func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := h.from.Hijack()
	h.recorder.taken = h.recorder.taken || err == nil
	return conn, rw, err
}
