// How many requests a service works on at once, in all and for each user.

package caller

import (
	"context"
	"sync"
)

// Room bounds the requests of a service that are worked on at once, and those of each
// user that the server names: a user that floods the service delays itself alone.
type Room struct {
	slots chan struct{}
	most  int // of one user, that are worked on or wait
	mu    sync.Mutex
	users map[string]*Share
}

// Share is one user's part of a room.
type Share struct {
	slots chan struct{}
	has   int // requests that are worked on or wait
	most  int
}

const (
	// MaxOfUser bounds the requests of one user that are worked on or wait. Clients that no
	// server names share MaxWaiting: they cannot be distinguished.
	MaxOfUser = 32
	// MaxWaiting bounds the requests of one verb that were not taken in yet.
	MaxWaiting = 1000
)

// NewRoom has slots for requests that are worked on at once; mostOfUser of one user are
// worked on or wait.
func NewRoom(slots, mostOfUser int) *Room {
	return &Room{slots: make(chan struct{}, slots), most: mostOfUser, users: map[string]*Share{}}
}

// Admit admits a request of a user; nil where the user has too many already. Each
// admitted request has to leave.
func (r *Room) Admit(user string) *Share {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.users[user]
	if x == nil {
		x = &Share{slots: make(chan struct{}, max(cap(r.slots)/4, 1)), most: r.most}
		if user == "" {
			x = &Share{slots: make(chan struct{}, cap(r.slots)), most: max(MaxWaiting, r.most)}
		}
		r.users[user] = x // as many as there are users
	}
	if x.has >= x.most {
		return nil
	}
	x.has++
	return x
}

// Work does what was admitted, once user and room have a slot for it, and leaves. It
// reports false, and does nothing, where ctx ends before.
func (r *Room) Work(ctx context.Context, x *Share, do func()) bool {
	defer func() {
		r.mu.Lock()
		x.has--
		r.mu.Unlock()
	}()
	if !enter(ctx, x.slots) {
		return false
	}
	defer func() { <-x.slots }()
	if !enter(ctx, r.slots) {
		return false
	}
	defer func() { <-r.slots }()
	do()
	return true
}

func enter(ctx context.Context, slots chan struct{}) bool {
	select {
	case slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}
