package storage

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"syscall"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/go-sql-driver/mysql"
)

// fenced is the client of S3 that Tessera uses. A request ends when the lock is lost, or when
// it takes too long. The context of Tessera itself does not end then: its queue would leave the
// writer without an answer for ever.
type fenced struct {
	awss3.HTTPClient
	lines *lines
}

func (f fenced) Do(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(r.Context(), objectTime)
	stop := context.AfterFunc(f.lines.life, cancel)
	end := func() { stop(); cancel() }
	got, err := f.HTTPClient.Do(r.WithContext(ctx))
	if err != nil {
		end()
		if f.lines.life.Err() != nil {
			err = errors.Join(ErrLost, err)
		}
		return nil, err
	}
	got.Body = body{got.Body, end}
	return got, nil
}

// lines are the connections of Tessera, which does not end them itself.
type lines struct {
	mu      sync.Mutex
	network string // by this name the driver finds the dial function
	open    map[*line]bool
	life    context.Context
	over    context.CancelFunc

	fence func(context.Context) error // says whether the lock is still held; nil: there is none
}

func newLines() *lines {
	l := &lines{open: map[*line]bool{}}
	l.life, l.over = context.WithCancel(context.Background())
	return l
}

// dsn returns a DSN for Tessera, whose connections l keeps.
func (l *lines) dsn(c *mysql.Config) string {
	own := c.Clone()
	l.network = fmt.Sprintf("fiador%p", l)
	network := c.Net
	own.Net = l.network
	mysql.RegisterDialContext(own.Net, func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{Timeout: c.Timeout}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if l.fence != nil {
			err = l.fence(ctx) // this process may have stood still, and not know that the lock is lost
		}
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.life.Err() != nil {
			return nil, errors.Join(ErrLost, conn.Close())
		}
		own := &line{conn, l}
		l.open[own] = true
		return own, nil
	})
	return own.FormatDSN()
}

// ErrLost says that another server may write now.
var ErrLost = errors.New("this server has not the lock any more")

// hangUp ends all connections and takes no new ones.
func (l *lines) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over()
	mysql.DeregisterDialContext(l.network) // which keeps the password
	for conn := range l.open {
		_ = conn.Conn.Close()
	}
	clear(l.open)
}

// line is one of them.
type line struct {
	net.Conn
	of *lines
}

func (c *line) Close() error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	delete(c.of.open, c)
	return c.Conn.Close()
}

// SyscallConn lets the driver see whether the database has ended the connection.
func (c *line) SyscallConn() (syscall.RawConn, error) { return c.Conn.(syscall.Conn).SyscallConn() }
