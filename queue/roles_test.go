package queue

import (
	"strings"
	"testing"
)

func TestAUserWithNoOrTooManyRightsIsRefused(t *testing.T) {
	producer := []Grant{{RoleProducer, []string{"main"}}}
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
		{User{Name: "app", Grants: []Grant{{RoleViewer, nil}}}, "of no account"},
		{User{Name: "app", Grants: []Grant{{RoleViewer, []string{">"}}}}, "account name"},
	} {
		if err := CheckUser(c.user); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c.user, err)
		}
	}
}

// TestASubjectIsImportedOnce: a user of several roles would ask twice otherwise.
func TestASubjectIsImportedOnce(t *testing.T) {
	u := User{Name: "all", Password: "pw", Grants: []Grant{
		{RoleOperator, []string{"main", "b"}}, {RoleViewer, []string{"main"}}, {RoleProducer, []string{"main"}}, {RoleSubscriber, []string{"b", "main"}},
	}}
	seen := map[string]bool{}
	for _, r := range u.rights(SomeVerbs) {
		if seen[r.here()] {
			t.Errorf("%s appears twice", r.here())
		}
		seen[r.here()] = true
	}
}
