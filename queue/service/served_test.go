package service

import (
	"context"
	"slices"
	"time"

	"perennial/queue"
)

// SomeVerbs are the program's verbs that the tests use.
var SomeVerbs = []Verb{
	{Name: "status", Roles: []queue.Role{queue.RoleProducer, queue.RoleViewer, queue.RoleOperator}},
	{Name: "show", Roles: []queue.Role{queue.RoleViewer, queue.RoleOperator}},
	{Name: "plan", Roles: []queue.Role{queue.RoleViewer, queue.RoleOperator}, Pace: Slow},
	{Name: "reconcile", Roles: []queue.Role{queue.RoleOperator}, Pace: Slow},
	{Name: "pause", Roles: []queue.Role{queue.RoleOperator}},
}

// ServeMain serves verbs of account main.
func ServeMain(js *queue.JetStream, version string, handlers map[string]Handler) (stop func() error, err error) {
	return Serve(context.Background(), js, Service{Account: "main", Version: version, Verbs: served(handlers), Clock: time.Now})
}

// served returns verbs with handlers: those of SomeVerbs, or others with only a name.
func served(handlers map[string]Handler) (verbs []Verb) {
	for name, handle := range handlers {
		v := Verb{Name: name}
		if i := slices.IndexFunc(SomeVerbs, func(v Verb) bool { return v.Name == name }); i >= 0 {
			v = SomeVerbs[i]
		}
		v.Handle = handle
		verbs = append(verbs, v)
	}
	return verbs
}
