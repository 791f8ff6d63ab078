package policy

import (
	"context"
	"maps"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"

	"github.com/fiador/fiador/kernel/canon"
)

// NewStore returns a store with data.profile, and with the decoded documents of more
// beside it. It decodes the bytes that the profile's digest covers. The error is an *Error
// of KindProfile.
func NewStore(profile []byte, more map[string]any) (storage.Store, error) {
	data := map[string]any{}
	maps.Copy(data, more)
	doc, err := canon.Parse(profile, len(profile))
	if data["profile"] = doc.Value(); err != nil {
		return nil, &Error{Kind: KindProfile, Msg: "profile has no canonical form"}
	}
	v, err := ast.InterfaceToValue(data)
	if err != nil {
		return nil, &Error{Kind: KindProfile, Msg: "profile has no canonical form"}
	}
	return inmem.NewFromASTObject(v.(ast.Object)), nil
}

// lazyStore holds data.profile. It makes a store with all documents when a rule first reads
// another one, because most decisions read none.
type lazyStore struct {
	storage.Store
	all func() (storage.Store, error)
}

// newLazyStore returns the store of NewStore, for documents that more returns when they are
// needed. An error of more is then one of the evaluation.
func newLazyStore(profile []byte, more func() (map[string]any, error)) (storage.Store, error) {
	first, err := NewStore(profile, nil)
	if err != nil {
		return nil, err
	}
	return lazyStore{first, sync.OnceValues(func() (storage.Store, error) {
		documents, err := more()
		if err != nil {
			return nil, err
		}
		return NewStore(profile, documents)
	})}, nil
}

// Read reads a document. Nothing writes to the store, so a transaction of its own sees the
// same as txn.
func (s lazyStore) Read(ctx context.Context, txn storage.Transaction, path storage.Path) (any, error) {
	if len(path) > 0 && path[0] == "profile" {
		return s.Store.Read(ctx, txn, path)
	}
	all, err := s.all()
	if err != nil {
		return nil, err
	}
	return storage.ReadOne(ctx, all, path)
}
