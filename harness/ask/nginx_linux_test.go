package ask

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel/adapter"
)

// TestNginx: a server that others have written answers, redirects and refuses.
func TestNginx(t *testing.T) {
	program, err := exec.LookPath("nginx")
	if err != nil {
		t.Skip("nginx is not installed here")
	}
	dir, port := "", 0
	rehearsal.Again(t, 5, func(int) (fault string) {
		dir = t.TempDir()
		port, fault = startNginx(t, program, dir)
		return fault // another program may have taken the port
	})
	a, v := asker()
	base := fmt.Sprintf("http://localhost:%d", port)
	if got := try(t, a, bound(t, base, "", "", `{"operation":"get","id":"a/b","q":"x y"}`)); string(got.Answer) != "GET /get/a%2Fb?q=x%20y" {
		t.Errorf("answer %+v", got)
	}
	if got := try(t, a, bound(t, base, "", "", `{"operation":"put"}`)); got.Failure != adapter.FailRefused {
		t.Errorf("a redirect to http: %+v", got)
	}
	if got := try(t, a, bound(t, base, "", "", post)); got.Failure != adapter.FailClient || got.Code != 403 {
		t.Errorf("without a key: %+v", got)
	}
	place := filepath.Join(dir, "key")
	if err := os.WriteFile(place, []byte("Zq9-secret-value\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := try(t, a, bound(t, base, `,"auth_method":"api_key","auth":{"secret_file":"`+place+`"}`, "", post)); string(got.Answer) != "in" || v.Empty() {
		t.Errorf("with a key: %+v", got)
	}
}

// startNginx starts the server in a folder, at a port that was free a moment ago.
func startNginx(t *testing.T, program, dir string) (port int, fault string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port = l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	config := fmt.Sprintf(`daemon off; master_process off; pid %[1]s/pid; error_log %[1]s/log; events {}
http { access_log off; client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;
gzip on; gzip_min_length 0; gzip_types text/plain;
server { listen 127.0.0.1:%[2]d; default_type text/plain; location /get/ { return 200 "$request_method $request_uri"; } location /put { return 302 http://localhost:%[2]d/get/1; }
location /post { if ($http_x_api_key != "%[3]s") { return 403; } return 200 "in"; } } }`, dir, port, "Zq9-secret-value")
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	server := exec.Command(program, "-e", filepath.Join(dir, "log"), "-p", dir, "-c", file)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = server.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = server.Process.Kill()
		<-ended
	})
	log := func() string {
		text, _ := os.ReadFile(filepath.Join(dir, "log"))
		return string(text)
	}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = c.Close()
		}
		switch {
		case over(ended) || strings.Contains(log(), "in use"):
			return 0, "nginx does not listen: " + log()
		case err == nil:
			return port, ""
		case time.Now().After(end):
			t.Fatalf("nginx does not listen: %s", log())
		}
	}
}

// over says whether a channel is closed.
func over(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
