// Replies that a fault spoils: hung, truncated or reset.

package sandbox

import (
	"net"
	"net/http"
	"strconv"
	"time"
)

// hang holds the reply back until its time is over, the client has gone or the
// server closes. The record stays in processing meanwhile.
func (s *Server) hang(w http.ResponseWriter, r *request, f *fault) {
	wait := time.Duration(f.Seconds * float64(time.Second))
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Time{})
	defer func() { _ = control.SetWriteDeadline(time.Now().Add(writeTimeout)) }()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.http.Context().Done():
	case <-s.closing:
	}
}

// misbehave replies as the fault says.
func (s *Server) misbehave(w http.ResponseWriter, r *request, f *fault, out reply) {
	s.counts.add(r.rt.pattern, r.http.Method, "fault:"+f.Fault)
	switch f.Fault {
	case "drop_before", "drop_after":
		reset(w)
	case "unresolved_record":
		if out.settle == nil { // refused, or the record was there before
			s.send(w, r, out, f)
			return
		}
		reset(w)
	case "error_before", "error_after":
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
	case "garbage":
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"success":tru`))
	case "html":
		firewall(w)
	case "truncate":
		truncate(w, out)
	case "code":
		status, message := f.HTTPStatus, f.Message
		if status == 0 {
			status = statusOf(f.Code)
		}
		if message == "" {
			message = "Injected by the sandbox."
		}
		s.send(w, r, s.envelope(status, f.Code, message, nil), f)
	}
}

// truncate promises the whole body, sends half and closes.
func truncate(w http.ResponseWriter, out reply) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(out.body)))
	w.WriteHeader(out.status)
	_, _ = w.Write(out.body[:len(out.body)/2])
	if conn, buf, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = buf.Flush()
		_ = conn.Close()
	}
}

// reset ends the connection with a TCP reset instead of an answer.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // net/http's own way to end a connection
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
