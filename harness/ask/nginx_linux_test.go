package ask

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/fiador/fiador/kernel/adapter"
)

// TestNginx: a server that others have written answers, redirects and refuses.
func TestNginx(t *testing.T) {
	program, err := exec.LookPath("nginx")
	if err != nil {
		t.Skip("nginx is not installed here")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	dir := t.TempDir()
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
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			_ = c.Close()
			break
		}
		if time.Now().After(end) {
			text, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Fatalf("nginx does not listen: %s", text)
		}
	}
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
