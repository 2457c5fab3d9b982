// Page sizes that the provider refuses, and the smaller ones that replace them.

package upstream

import (
	"context"
	"errors"
	"sync"
)

// smallerPages are asked for in turn where the provider refuses a size: the
// greatest sizes of the orders and proxies lists are not given (API: GET
// /api/v1/orders), and that of the offers need not be what the document says.
// Behind them the size is left out, which no provider can refuse (trap 53).
var smallerPages = []int{100, 50, 0}

// ErrPageSize is a page size that was refused in the middle of a list, where a
// token is bound to it: the list begins again, with a smaller one.
var ErrPageSize = errors.New("upstream: the page size was refused in the middle of a list")

// RestartsList reports whether a list has to be read again from its first page:
// its page token holds no more, or not for this size (API: Pagination rules).
func RestartsList(err error) bool {
	return errors.Is(err, CodeInvalidPageToken) || errors.Is(err, ErrPageSize)
}

// pageSizes remembers the greatest size of each list that is worth asking for.
type pageSizes struct {
	mu   sync.Mutex
	most map[string]int // by path; 0: the size is left out
}

// of is the size to ask for where a caller wants so many.
func (s *pageSizes) of(path string, wanted int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if most, known := s.most[path]; known && wanted > most {
		return most
	}
	return wanted
}

func (s *pageSizes) learn(path string, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.most == nil {
		s.most = map[string]int{}
	}
	s.most[path] = most
}

func smallerPage(than int) int {
	for _, size := range smallerPages {
		if size < than {
			return size
		}
	}
	return 0
}

// getPage reads one page, of the size that was asked for or the greatest that the
// provider takes. A request that is refused at every size is refused for another
// reason.
func getPage[T any](ctx context.Context, c *Client, list list, pairs []string, r PageRequest, decode func(*object) T) (Page[T], error) {
	r.Size = c.sizes.of(list.path, r.Size)
	first, refused := r.Size, error(nil)
	for {
		page, err := readPage(ctx, c, list, pairs, r, decode)
		switch {
		case err == nil && r.Size < first:
			c.sizes.learn(list.path, r.Size)
			return page, nil
		case r.Size == 0 && refused != nil && errors.Is(err, CodeValidationError):
			return page, refused
		case r.Size == 0 || !errors.Is(err, CodeValidationError):
			return page, err
		case r.Token != "":
			c.sizes.learn(list.path, smallerPage(r.Size))
			return page, errors.Join(ErrPageSize, err)
		}
		r.Size, refused = smallerPage(r.Size), err
	}
}
