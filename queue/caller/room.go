// Limits of a service's concurrent requests, in all and for each user.

package caller

import (
	"context"
	"sync"
)

// Room bounds the requests of a service handled at once, in all and for each user that the
// server names. A user who floods the service delays only itself.
type Room struct {
	slots chan struct{}
	most  int // of one user, handled or waiting
	mu    sync.Mutex
	users map[string]*Share
}

// Share is one user's part of a room.
type Share struct {
	slots chan struct{}
	has   int // requests handled or waiting
	most  int
}

const (
	// MaxOfUser bounds the requests of one user that are handled or wait. Clients that no
	// server names share MaxWaiting: they cannot be distinguished.
	MaxOfUser = 32
	// MaxWaiting bounds the requests of one verb not yet taken in.
	MaxWaiting = 1000
)

// NewRoom returns a room with slots for requests handled at once. At most mostOfUser
// requests of one user are handled or wait.
func NewRoom(slots, mostOfUser int) *Room {
	return &Room{slots: make(chan struct{}, slots), most: mostOfUser, users: map[string]*Share{}}
}

// Admit admits a request of a user; nil if the user already has too many. Each admitted
// request must be passed to Work.
func (r *Room) Admit(user string) *Share {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.users[user]
	if x == nil {
		x = &Share{slots: make(chan struct{}, max(cap(r.slots)/4, 1)), most: r.most}
		if user == "" {
			x = &Share{slots: make(chan struct{}, cap(r.slots)), most: max(MaxWaiting, r.most)}
		}
		r.users[user] = x // bounded by the number of users
	}
	if x.has >= x.most {
		return nil
	}
	x.has++
	return x
}

// Work runs an admitted request once user and room have a slot for it, and then releases
// its place. If ctx ends first it returns false and runs nothing.
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
