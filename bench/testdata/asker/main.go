// Command asker sends requests to agents and reads the answers. Fiador is held against it: asker
// checks nothing but the status, and remembers nothing.
//
//	asker [-at N] [-kept] [-keep DIR] URL FILE [URL FILE]
//
// FILE has a request a line. All URLs are asked at once, and each of them N requests at once.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
)

func main() {
	at := flag.Int("at", 1, "requests to one URL at once")
	kept := flag.Bool("kept", false, "keep connections; otherwise each request has its own")
	keep := flag.String("keep", "", "write each answer to a file of this new folder, and sync it")
	flag.Parse()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: !*kept, MaxIdleConnsPerHost: *at}}
	if err := run(client, *at, *keep, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(client *http.Client, at int, keep string, args []string) error {
	if keep != "" {
		if err := os.Mkdir(keep, 0o755); err != nil {
			return err
		}
	}
	var all sync.WaitGroup
	faults := make([]error, len(args)/2*at)
	for side := range len(args) / 2 {
		text, err := os.ReadFile(args[2*side+1])
		if err != nil {
			return err
		}
		bodies := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
		var next atomic.Int64
		for worker := range at {
			all.Go(func() {
				for n := int(next.Add(1)); n <= len(bodies); n = int(next.Add(1)) {
					answer, err := ask(client, args[2*side], bodies[n-1])
					if err == nil && keep != "" {
						err = write(filepath.Join(keep, fmt.Sprintf("%d-%d.json", side, n)), answer)
					}
					if err != nil {
						faults[side*at+worker] = err
						return
					}
				}
			})
		}
	}
	all.Wait()
	return errors.Join(faults...)
}

func ask(client *http.Client, url string, body []byte) ([]byte, error) {
	resp, err := client.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	return io.ReadAll(resp.Body)
}

func write(name string, text []byte) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
