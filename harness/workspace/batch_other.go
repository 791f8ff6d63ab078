//go:build !(linux && (amd64 || arm64))

package workspace

import "context"

type batch struct{ Sink }

func (s *Store) begin(context.Context) (*batch, error) { return nil, ErrUnsupported }

func (b *batch) commit() error { return ErrUnsupported }

func (b *batch) end() error { return nil }

// Lock returns ErrUnsupported on this system.
func (s *Store) Lock() (unlock func() error, err error) { return nil, ErrUnsupported }
