package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
)

// lie is one way in which a server, or what the caller asks, is wrong.
type lie struct {
	name  string
	lie   func(*liar)
	task  func(*task)
	hello map[string]any

	want     kind // empty: the action is done
	message  string
	mayRun   bool
	attempts int            // of an action that is done
	calls    map[string]int // of the server
	cancels  bool

	sees string // the call that has to come within a short wait_ms
}

// play runs a task against a liar. Nothing that failed may leave a file. Where a short wait was
// over before the call that the lie is about, as on a machine that stalls, it plays again.
func (c lie) play(t *testing.T) {
	l, k, a := c.round(t)
	for tries := 0; c.sees != "" && l.count(c.sees) == 0 && tries < 5; tries++ {
		l, k, a = c.round(t)
	}
	for method, n := range c.calls {
		if got := l.count(method); got != n {
			t.Errorf("%d calls of %s, want %d", got, method, n)
		}
	}
	if got := len(l.canceled) > 0; got != c.cancels {
		t.Errorf("cancelled: %t", got)
	}
	if c.want == "" {
		if a.Type != "done" || c.attempts != 0 && a.Ephemeral.Attempts != c.attempts {
			t.Fatalf("got %+v", a)
		}
		if got := k.made(a); string(got) != made {
			t.Errorf("got %q", got)
		}
		return
	}
	if a.Type != "failed" || a.ID != "1" || a.Kind != c.want || !strings.Contains(a.Message, c.message) || a.MayHaveRun != c.mayRun {
		t.Errorf("got %+v, want %s with %q, may have run %t", a, c.want, c.message, c.mayRun)
	}
	k.nothingMade()
}

// round runs a task against a liar once, and returns the last message about it.
func (c lie) round(t *testing.T) (*liar, *task, answer) {
	l := newLiar()
	if c.lie != nil {
		c.lie(l)
	}
	l.serve(t)
	k := newTask(t, "is not run by a liar").file("in/a", []byte("hello\n"), false)
	if c.task != nil {
		c.task(k)
	}
	h := startInside(t)
	h.send(helloTo(l.address, map[string]any{"wait_ms": 60_000}, c.hello))
	a := h.next()
	if a.Type != "hello" {
		if c.sees == "" {
			t.Fatalf("got %+v, want hello", a)
		}
		return l, k, a // a short wait_ms was over before the greeting: play does it again
	}
	h.send(k.ready())
	if a = h.next(); a.Type == "accepted" {
		a = h.next()
	}
	return l, k, a
}

func playAll(t *testing.T, lies []lie) {
	for _, c := range lies {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.play(t)
		})
	}
}

// sends makes a Read that sends data, and nothing else, from the nth call on.
func sends(n int, data string) func(int, bytestream.ByteStream_ReadServer) error {
	return func(call int, s bytestream.ByteStream_ReadServer) error {
		if call < n {
			return s.Send(&bytestream.ReadResponse{Data: []byte(made)})
		}
		return s.Send(&bytestream.ReadResponse{Data: []byte(data)})
	}
}

func changeResult(f func(*repb.ActionResult)) func(*liar) {
	return func(l *liar) { l.result = f }
}

func addOutput(path string) func(*liar) {
	return changeResult(func(r *repb.ActionResult) {
		r.OutputFiles = append(r.OutputFiles, &repb.OutputFile{Path: path, Digest: r.OutputFiles[0].Digest})
	})
}

func once(k *task) { k.set("once", true) }

func TestOutputLies(t *testing.T) {
	link := []*repb.OutputSymlink{{Path: "out/b", Target: "/etc/passwd"}}
	wrong := "the server sent other bytes"
	playAll(t, []lie{
		{name: "none", attempts: 1, calls: map[string]int{"Execute": 1, "GetActionResult": 0, "BatchReadBlobs": 1, "Read": 0}},
		{name: "other bytes", lie: func(l *liar) { l.noBatchReads, l.read = true, sends(1, "evil\n") }, want: kindBroken, message: wrong, mayRun: true, calls: map[string]int{"Read": 2}},
		{name: "other bytes in a batch", lie: func(l *liar) { l.blobs[digestOf([]byte(made)).hash] = []byte("evil\n") }, want: kindBroken, message: wrong, mayRun: true},
		{name: "other bytes once", lie: func(l *liar) {
			l.noBatchReads, l.read = true, func(n int, s bytestream.ByteStream_ReadServer) error {
				return s.Send(&bytestream.ReadResponse{Data: []byte([]string{"", "evil\n", made}[n])})
			}
		}, calls: map[string]int{"Read": 2}},
		{name: "fewer bytes", lie: func(l *liar) { l.noBatchReads, l.read = true, sends(1, "ma") }, want: kindBroken, message: wrong, mayRun: true},
		{name: "more bytes", lie: func(l *liar) { l.noBatchReads, l.read = true, sends(1, made+"more") }, want: kindBroken, message: wrong, mayRun: true},
		{name: "endless bytes", lie: func(l *liar) {
			l.noBatchReads, l.read = true, func(_ int, s bytestream.ByteStream_ReadServer) error {
				for chunk := bytes.Repeat([]byte("x"), 1000); ; {
					if err := s.Send(&bytestream.ReadResponse{Data: chunk}); err != nil {
						return err
					}
				}
			}
		}, want: kindBroken, message: wrong, mayRun: true},
		{name: "endless empty messages", sees: "Read", hello: map[string]any{"wait_ms": 500}, lie: func(l *liar) {
			l.noBatchReads, l.read = true, func(_ int, s bytestream.ByteStream_ReadServer) error {
				for {
					if err := s.Send(&bytestream.ReadResponse{}); err != nil {
						return err
					}
				}
			}
		}, want: kindLost, message: "no answer within", mayRun: true},
		{name: "hanging read", sees: "Read", hello: map[string]any{"wait_ms": 500}, lie: func(l *liar) {
			l.noBatchReads, l.read = true, func(_ int, s bytestream.ByteStream_ReadServer) error { <-s.Context().Done(); return nil }
		}, want: kindLost, message: "no answer within", mayRun: true},
		{name: "read fails twice", lie: func(l *liar) {
			l.noBatchReads, l.read = true, func(n int, s bytestream.ByteStream_ReadServer) error {
				if n < 3 {
					return status.Error(codes.Unavailable, "later")
				}
				return s.Send(&bytestream.ReadResponse{Data: []byte(made)})
			}
		}, calls: map[string]int{"Read": 3}},
		{name: "blob gone", lie: func(l *liar) { delete(l.blobs, digestOf([]byte(made)).hash) }, want: kindLost, message: "NotFound", mayRun: true},
		{name: "huge declared size", lie: changeResult(func(r *repb.ActionResult) { r.OutputFiles[0].Digest.SizeBytes = 1 << 50 }),
			want: kindBroken, message: "1048576 are allowed", mayRun: true, calls: map[string]int{"Read": 0, "BatchReadBlobs": 0}},
		{name: "another declared size", lie: changeResult(func(r *repb.ActionResult) { r.OutputFiles[0].Digest.SizeBytes++ }), want: kindBroken, message: wrong, mayRun: true},
		{name: "negative size", lie: changeResult(func(r *repb.ActionResult) { r.OutputFiles[0].Digest.SizeBytes = -1 }), want: kindBroken, message: "no valid digest", mayRun: true},
		{name: "no digest", lie: changeResult(func(r *repb.ActionResult) { r.OutputFiles[0].Digest = nil }), want: kindBroken, message: "no valid digest", mayRun: true},
		{name: "hash that is a path", lie: changeResult(func(r *repb.ActionResult) { r.OutputFiles[0].Digest.Hash = strings.Repeat("../", 21) + "x" }), want: kindBroken, message: "no valid digest", mayRun: true},
		{name: "extra output", lie: addOutput("out/extra"), want: kindBroken, message: "2 output files; 1", mayRun: true},
		{name: "output outside", lie: addOutput("../../escape"), want: kindBroken, message: "2 output files; 1", mayRun: true},
		{name: "output twice", lie: addOutput("out/b"), want: kindBroken, message: "twice", mayRun: true},
		{name: "other output", lie: changeResult(func(r *repb.ActionResult) { r.OutputFiles[0].Path = "/out/b" }), want: kindBroken, message: `"out/b" is missing`, mayRun: true},
		{name: "empty output message", lie: changeResult(func(r *repb.ActionResult) { r.OutputFiles = append(r.OutputFiles, &repb.OutputFile{}) }), want: kindBroken, mayRun: true},
		{name: "link", lie: changeResult(func(r *repb.ActionResult) { r.OutputFiles, r.OutputSymlinks = nil, link }), want: kindBroken, message: "a link or a folder", mayRun: true},
		{name: "link of API 2.0", lie: changeResult(func(r *repb.ActionResult) {
			//lint:ignore SA1019 servers of REAPI 2.0 set it
			r.OutputFileSymlinks = link
		}), want: kindBroken, message: "a link or a folder", mayRun: true},
		{name: "folder", lie: changeResult(func(r *repb.ActionResult) {
			r.OutputFiles, r.OutputDirectories = nil, []*repb.OutputDirectory{{Path: "out/b", TreeDigest: r.OutputFiles[0].Digest}}
		}), want: kindBroken, message: "a link or a folder", mayRun: true},
		{name: "inline", lie: changeResult(func(r *repb.ActionResult) { r.OutputFiles[0].Contents = []byte(made) }), calls: map[string]int{"Read": 0, "BatchReadBlobs": 0}},
		{name: "other bytes inline", lie: func(l *liar) {
			l.read = sends(1, "evil\n")
			l.result = func(r *repb.ActionResult) { r.OutputFiles[0].Contents = []byte("evil\n") }
		}, want: kindBroken, message: wrong, mayRun: true, calls: map[string]int{"Read": 1}},
		{name: "other bytes inline, right ones behind", lie: changeResult(func(r *repb.ActionResult) { r.OutputFiles[0].Contents = []byte("evil\n") })},
	})
}

// says makes an Execute that ends with an error after the server has taken the action, or
// before.
func says(code codes.Code, taken bool) func(*liar) {
	return func(l *liar) {
		l.execute = func(_ int, s stream) error {
			if taken {
				l.answer = func(r *repb.ExecuteResponse) { r.Result, r.Status = nil, status.New(code, "says the server").Proto() }
				return l.finish(s)
			}
			return status.Error(code, "says the server")
		}
	}
}

// first makes an Execute that does something in the first calls.
func first(n int, f func(*liar, stream) error) func(*liar) {
	return func(l *liar) {
		l.execute = func(call int, s stream) error {
			if call <= n {
				return f(l, s)
			}
			return l.finish(s)
		}
	}
}

func taken(_ *liar, s stream) error {
	return s.Send(&longrunningpb.Operation{Name: "operations/1"})
}

func TestExecuteLies(t *testing.T) {
	four := map[string]int{"Execute": 4}
	one := map[string]int{"Execute": 1}
	hangs := func(_ *liar, s stream) error { <-s.Context().Done(); return nil }
	hangsTaken := func(l *liar, s stream) error { taken(l, s); return hangs(l, s) }
	short := func(k *task) { k.set("timeout_ms", 200) }
	soon := map[string]any{"wait_ms": 800}
	noResult := func(l *liar) { l.answer = func(r *repb.ExecuteResponse) { r.Result = nil } }
	playAll(t, []lie{
		{name: "cached", lie: func(l *liar) { l.answer = func(r *repb.ExecuteResponse) { r.CachedResult = true } }, want: kindBroken, message: "cache", mayRun: true, calls: one},
		{name: "no result", lie: noResult, want: kindLost, message: "no ActionResult", mayRun: true, calls: four},
		{name: "no result, once", lie: noResult, task: once, want: kindLost, message: "no ActionResult", mayRun: true, calls: one},
		{name: "no response", lie: first(1, func(_ *liar, s stream) error {
			return s.Send(&longrunningpb.Operation{Name: "operations/1", Done: true})
		}), attempts: 2},
		{name: "other response", lie: first(9, func(_ *liar, s stream) error {
			packed, _ := anypb.New(&repb.ActionResult{})
			return s.Send(&longrunningpb.Operation{Done: true, Result: &longrunningpb.Operation_Response{Response: packed}})
		}), want: kindBroken, message: "no ExecuteResponse", mayRun: true, calls: one},
		{name: "operation with an error", lie: first(1, func(_ *liar, s stream) error {
			return s.Send(&longrunningpb.Operation{Done: true, Result: &longrunningpb.Operation_Error{Error: status.New(codes.Internal, "oh").Proto()}})
		}), attempts: 2},
		{name: "hangs", sees: "Execute", hello: soon, task: short, lie: first(9, hangs), want: kindLost, message: "no answer within 1s", mayRun: true, calls: one},
		{name: "hangs after it took the action", sees: "Execute", hello: soon, task: short, lie: first(9, hangsTaken), want: kindLost, message: "no answer within 1s", mayRun: true, calls: one, cancels: true},
		{name: "closed before the operation", lie: first(9, func(*liar, stream) error { return nil }), want: kindLost, message: "closed the stream", mayRun: true, calls: four},
		{name: "closed before the operation, once", task: once, lie: first(9, func(*liar, stream) error { return nil }), want: kindLost, message: "closed the stream", mayRun: true, calls: one},
		{name: "closed, then waited for", task: once, lie: func(l *liar) {
			first(9, taken)(l)
			l.wait = func(_ int, s stream) error { return l.finish(s) }
		}, attempts: 1, calls: map[string]int{"Execute": 1, "WaitExecution": 1}},
		{name: "closed always", lie: func(l *liar) {
			first(9, taken)(l)
			l.wait = func(_ int, s stream) error { return taken(l, s) }
		}, hello: map[string]any{"wait_ms": 60_000}, want: kindLost, message: "closed the stream", mayRun: true, cancels: true, calls: map[string]int{"Execute": 4, "WaitExecution": 12, "CancelOperation": 4}},
		{name: "cut by a clock", task: once, hello: map[string]any{"wait_ms": 60_000}, lie: func(l *liar) {
			first(9, taken)(l)
			l.wait = func(n int, s stream) error {
				if n > 5 {
					return l.finish(s)
				}
				time.Sleep(longStream + 100*time.Millisecond)
				return status.Error(codes.Unavailable, "cut")
			}
		}, attempts: 1, calls: map[string]int{"WaitExecution": 6}},
		{name: "operation lost", lie: first(1, taken), attempts: 2, cancels: true, calls: map[string]int{"Execute": 2, "WaitExecution": 1, "CancelOperation": 1}},
		{name: "operation lost, once", task: once, lie: first(1, taken), want: kindLost, message: "no operation", mayRun: true, cancels: true, calls: one},
	})
}

// TestStreamLies: what breaks a stream need not have ended the action. It is waited for, and is
// not sent anew.
func TestStreamLies(t *testing.T) {
	for _, code := range []codes.Code{codes.Canceled, codes.Unknown, codes.DeadlineExceeded} {
		breaks := func(l *liar, s stream) error { taken(l, s); return status.Error(code, "says a proxy") }
		playAll(t, []lie{
			{name: code.String(), lie: func(l *liar) {
				first(9, breaks)(l)
				l.wait = func(n int, s stream) error {
					if n == 1 {
						return breaks(l, s)
					}
					return l.finish(s)
				}
			}, attempts: 1, calls: map[string]int{"Execute": 1, "WaitExecution": 2, "CancelOperation": 0}},
			{name: code.String() + " always", lie: func(l *liar) {
				first(9, breaks)(l)
				l.wait = func(_ int, s stream) error { return breaks(l, s) }
			}, want: kindLost, message: "says a proxy", mayRun: true, cancels: true, calls: map[string]int{"Execute": 1, "WaitExecution": 3, "CancelOperation": 1}},
		})
	}
}

func TestStatusLies(t *testing.T) {
	one, four := map[string]int{"Execute": 1}, map[string]int{"Execute": 4}
	playAll(t, []lie{
		{name: "unavailable twice", lie: first(2, func(*liar, stream) error { return status.Error(codes.Unavailable, "later") }), attempts: 3},
		{name: "unavailable, once", task: once, lie: says(codes.Unavailable, false), want: kindLost, mayRun: true, calls: one},
		{name: "unavailable at the end", lie: says(codes.Unavailable, true), want: kindLost, message: "says the server", mayRun: true, calls: four},
		{name: "aborted", lie: says(codes.Aborted, false), want: kindLost, mayRun: true, calls: four},
		{name: "internal", lie: says(codes.Internal, false), want: kindLost, mayRun: true, calls: four},
		{name: "unknown", lie: says(codes.Unknown, false), want: kindLost, mayRun: true, calls: one},
		{name: "full", lie: says(codes.ResourceExhausted, false), want: kindBusy, message: "says the server", calls: four},
		{name: "full, once", task: once, lie: says(codes.ResourceExhausted, false), want: kindBusy, calls: four},
		{name: "full at the end, once", task: once, lie: says(codes.ResourceExhausted, true), want: kindLost, mayRun: true, calls: one},
		{name: "full with an operation too large", task: once, lie: first(9, func(_ *liar, s stream) error {
			return s.Send(&longrunningpb.Operation{Name: strings.Repeat("x", 5<<20)})
		}), want: kindLost, message: "larger than max", mayRun: true, calls: one},
		{name: "denied", lie: says(codes.PermissionDenied, false), want: kindConfig, message: "PermissionDenied", calls: one},
		{name: "unauthenticated", lie: says(codes.Unauthenticated, false), want: kindConfig, calls: one},
		{name: "invalid", lie: says(codes.InvalidArgument, false), want: kindConfig, calls: one},
		{name: "invalid at the end", lie: says(codes.InvalidArgument, true), want: kindConfig, mayRun: true, calls: one},
		{name: "unimplemented", lie: says(codes.Unimplemented, false), want: kindConfig, calls: one},
		{name: "precondition", lie: says(codes.FailedPrecondition, false), want: kindLost, calls: one},
		{name: "late", lie: says(codes.DeadlineExceeded, true), want: kindLost, message: "the server ended the action after its timeout", mayRun: true, calls: one},
		{name: "blob missing", task: once, lie: func(l *liar) {
			l.execute = func(n int, s stream) error {
				if n > 1 {
					return l.finish(s)
				}
				d := digestOf([]byte("hello\n"))
				l.mu.Lock()
				delete(l.blobs, d.hash)
				l.mu.Unlock()
				return lacksBlob(d.proto())
			}
		}, attempts: 2, calls: map[string]int{"FindMissingBlobs": 2, "BatchUpdateBlobs": 2}},
		{name: "blob missing at the end", lie: func(l *liar) {
			l.execute = func(n int, s stream) error {
				if n == 1 {
					d := digestOf([]byte("hello\n"))
					l.mu.Lock()
					delete(l.blobs, d.hash)
					l.mu.Unlock()
					l.answer = func(r *repb.ExecuteResponse) { r.Status = status.Convert(lacksBlob(d.proto())).Proto() }
					defer func() { l.answer = nil }()
				}
				return l.finish(s)
			}
		}, attempts: 2, calls: map[string]int{"BatchUpdateBlobs": 2}},
	})
}

func TestUploadLies(t *testing.T) {
	large := func(k *task) { k.file("in/large", bytes.Repeat([]byte("0123456789"), 400_000), false) }
	answers := func(n int64) func(*liar) {
		return func(l *liar) {
			l.write = func(s bytestream.ByteStream_WriteServer) error {
				for {
					if m, err := s.Recv(); err != nil || m.FinishWrite {
						return s.SendAndClose(&bytestream.WriteResponse{CommittedSize: n})
					}
				}
			}
		}
	}
	playAll(t, []lie{
		{name: "large", task: large, calls: map[string]int{"Write": 1}},
		{name: "no room in a batch", task: func(k *task) { k.file("in/empty", nil, false) }, lie: func(l *liar) {
			l.capabilities.CacheCapabilities.MaxBatchTotalSizeBytes = 1
		}, calls: map[string]int{"BatchUpdateBlobs": 0, "BatchReadBlobs": 0, "Write": 6, "Read": 1}},
		{name: "fewer taken", task: large, lie: answers(17), want: kindBroken, message: "took 17 bytes of 4000000", calls: map[string]int{"Write": 4, "Execute": 0}},
		{name: "not stored", task: large, lie: answers(4_000_000), want: kindLost, message: "a blob is missing", calls: map[string]int{"Write": 4, "Execute": 4}},
		{name: "write hangs", sees: "Write", task: large, hello: map[string]any{"wait_ms": 300}, lie: func(l *liar) {
			l.write = func(s bytestream.ByteStream_WriteServer) error { <-s.Context().Done(); return nil }
		}, want: kindLost, message: "no answer within", calls: map[string]int{"Execute": 0}},
		{name: "taken after the first chunk", task: large, lie: func(l *liar) {
			l.put(bytes.Repeat([]byte("0123456789"), 400_000))
			l.lacking = func(r *repb.FindMissingBlobsResponse) {
				r.MissingBlobDigests = append(r.MissingBlobDigests, digestOf(bytes.Repeat([]byte("0123456789"), 400_000)).proto())
			}
			l.write = func(s bytestream.ByteStream_WriteServer) error {
				s.Recv()
				return s.SendAndClose(&bytestream.WriteResponse{CommittedSize: 4_000_000})
			}
		}},
		{name: "write refused", task: large, lie: func(l *liar) {
			l.write = func(bytestream.ByteStream_WriteServer) error {
				return status.Error(codes.PermissionDenied, "read-only")
			}
		}, want: kindConfig, message: "read-only", calls: map[string]int{"Write": 1, "Execute": 0}},
		{name: "batch refused", lie: func(l *liar) {
			l.update = func(r *repb.BatchUpdateBlobsResponse) {
				r.Responses[0].Status = status.New(codes.InvalidArgument, "bad").Proto()
			}
		}, want: kindConfig, message: "BatchUpdateBlobs: bad", calls: map[string]int{"BatchUpdateBlobs": 1, "Execute": 0}},
		{name: "batch full", lie: func(l *liar) {
			l.update = func(r *repb.BatchUpdateBlobsResponse) {
				r.Responses[0].Status = status.New(codes.ResourceExhausted, "disk").Proto()
			}
		}, want: kindBusy, calls: map[string]int{"BatchUpdateBlobs": 4, "Execute": 0}},
		{name: "batch half answered", lie: func(l *liar) {
			l.update = func(r *repb.BatchUpdateBlobsResponse) { r.Responses = r.Responses[1:] }
		}, want: kindBroken, message: "answers for", calls: map[string]int{"BatchUpdateBlobs": 4, "Execute": 0}},
		{name: "missing what nobody has", lie: func(l *liar) {
			l.lacking = func(r *repb.FindMissingBlobsResponse) {
				r.MissingBlobDigests = append(r.MissingBlobDigests, digestOf([]byte("secret")).proto())
			}
		}, want: kindBroken, message: "not asked for", calls: map[string]int{"Execute": 0}},
	})
}

// TestParts: many blobs are asked for in parts and sent within the limits, and each once.
func TestParts(t *testing.T) {
	for limit, streams := range map[int64]int{2000: 1, 0: 0} {
		l := newLiar()
		l.capabilities.CacheCapabilities.MaxBatchTotalSizeBytes = limit
		l.serve(t)
		k := newTask(t, "is not run by a liar").file("in/large", make([]byte, 2000), false).file("in/same", make([]byte, 2000), true)
		for i := range 12_000 {
			k.file(fmt.Sprintf("in/%d/%d", i%100, i), fmt.Append(nil, i), false)
		}
		h := startInside(t)
		if a := h.greet(helloTo(l.address)); a.Server.MaxBatchBytes != limit {
			t.Errorf("got %+v", a)
		}
		h.send(k.ready())
		h.want("accepted")
		a := h.want("done")
		if len(l.asked) != 2 || l.asked[0] != 10_000 {
			t.Errorf("asked for %d", l.asked)
		}
		for _, batch := range l.batches {
			if batch[0] > 1000 || limit > 0 && batch[1] > int(limit) {
				t.Errorf("a batch of %d blobs and %d bytes", batch[0], batch[1])
			}
		}
		// 12 000 files, one large one, the root, in, its folders, command and action.
		if want := 12_000 + 1 + 2 + 100 + 2; a.Ephemeral.UploadedFiles != int64(want) || len(l.uploads) != want {
			t.Errorf("%+v, want %d", a.Ephemeral, want)
		}
		for hash, n := range l.uploads {
			if n != 1 {
				t.Errorf("%s was sent %d times", hash, n)
			}
		}
		if got := l.count("Write"); got < streams || limit == 0 && got > 0 {
			t.Errorf("%d streams", got)
		}
	}
}

// TestNoBatchReads: a server without BatchReadBlobs is asked for it once.
func TestNoBatchReads(t *testing.T) {
	l := newLiar()
	l.noBatchReads = true
	l.serve(t)
	h := startInside(t)
	h.greet(helloTo(l.address))
	for range 3 {
		k := newTask(t, "is not run by a liar")
		h.send(k.ready())
		h.want("accepted")
		if got := k.made(h.want("done")); string(got) != made {
			t.Errorf("got %q", got)
		}
	}
	if asked, read := l.count("BatchReadBlobs"), l.count("Read"); asked != 1 || read != 3 {
		t.Errorf("%d calls of BatchReadBlobs, %d of Read", asked, read)
	}
}
