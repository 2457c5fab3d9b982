package caller

import (
	"context"
	"sync"
)

// Room limits the concurrent requests of a service, in total and for each user that the
// server has identified. A user who floods the service delays only that user's requests.
type Room struct {
	slots chan struct{}
	most  int // limit on one user's requests that are handled or wait
	mu    sync.Mutex
	users map[string]*Share
}

// Share tracks the requests of one user.
type Share struct {
	slots chan struct{}
	has   int // number of requests that are handled or wait
	most  int
}

const (
	// MaxOfUser limits the requests of one user that are in progress or waiting. Clients that no
	// server has identified cannot be told apart. They are limited together, to MaxWaiting.
	MaxOfUser = 32
	// MaxWaiting limits the requests of one verb that wait.
	MaxWaiting = 1000
)

// NewRoom returns a Room that handles up to slots requests concurrently. At most mostOfUser
// requests of one user are in progress or waiting.
func NewRoom(slots, mostOfUser int) *Room {
	return &Room{slots: make(chan struct{}, slots), most: mostOfUser, users: map[string]*Share{}}
}

// Admit admits a request of a user. It returns nil if the user has too many requests. Each
// admitted request must be passed to Work.
func (r *Room) Admit(user string) *Share {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.users[user]
	if x == nil {
		x = &Share{slots: make(chan struct{}, max(cap(r.slots)/4, 1)), most: r.most}
		if user == "" {
			x = &Share{slots: make(chan struct{}, cap(r.slots)), most: max(MaxWaiting, r.most)}
		}
		r.users[user] = x // one entry per user, so entries need not be removed
	}
	if x.has >= x.most {
		return nil
	}
	x.has++
	return x
}

// Work runs an admitted request when the limits of the user and of the room allow it. If
// ctx ends first, it returns false and runs nothing.
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
	if ctx.Err() != nil {
		return false
	}
	select {
	case slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}
