package roles

import (
	"strings"
	"testing"

	"perennial/queue"
	"perennial/queue/service"
)

func TestAUserWithNoOrTooManyRightsIsRefused(t *testing.T) {
	producer := []Grant{{queue.RoleProducer, []string{"main"}}}
	for _, c := range []struct {
		user User
		says string
	}{
		{User{Name: "", Grants: producer}, "must be 1 to 64"},
		{User{Name: "a b", Grants: producer}, "must be 1 to 64"},
		{User{Name: `x"}`, Grants: producer}, "must be 1 to 64"},
		{User{Name: "a.b", Grants: producer}, "must be 1 to 64"},
		{User{Name: RunnerUser, Grants: producer}, "must be 1 to 64"},
		{User{Name: "app"}, "has no roles"},
		{User{Name: "app", Grants: []Grant{{"admin", []string{"main"}}}}, "must be producer, subscriber, viewer or operator"},
		{User{Name: "app", Grants: []Grant{{queue.RoleViewer, nil}}}, "of no account"},
		{User{Name: "app", Grants: []Grant{{queue.RoleViewer, []string{">"}}}}, "account name"},
	} {
		if err := CheckUser(c.user); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c.user, err)
		}
	}
}

// With two imports, a user with several roles would send each request twice.
func TestASubjectIsImportedOnce(t *testing.T) {
	u := User{Name: "all", Password: "pw", Grants: []Grant{
		{queue.RoleOperator, []string{"main", "b"}}, {queue.RoleViewer, []string{"main"}}, {queue.RoleProducer, []string{"main"}}, {queue.RoleSubscriber, []string{"b", "main"}},
	}}
	seen := map[string]bool{}
	for _, r := range u.rights([]service.Verb{{Name: "status", Roles: []queue.Role{queue.RoleProducer, queue.RoleViewer, queue.RoleOperator}}, {Name: "pause", Roles: []queue.Role{queue.RoleOperator}}}) {
		once := r.here()
		if r.stream {
			once = r.subject
		}
		if seen[once] {
			t.Errorf("%s appears twice", once)
		}
		seen[once] = true
	}
}
