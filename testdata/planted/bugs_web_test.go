package planted

// webBugs open the pages.
var webBugs = []bug{
	{name: "a page is shown without a login", in: "web.Server.signedIn", run: "TestNothingIsShown",
		old: "case !ok && r.Method == http.MethodGet && r.URL.Path != \"/changes\":", new: "case !ok && r.Method == http.MethodGet && r.URL.Path == \"/changes\":"},
	{name: "a link signs in twice", in: "web.sessions.redeem", run: "TestALinkSignsInOnce",
		old: "_, used := s.spent[x.ID]; used {", new: "_, used := s.spent[x.ID]; used && now.IsZero() {"},
	{name: "a link of before the start signs in", in: "web.sessions.redeem", run: "TestALinkSignsInOnce",
		old: "x.Issued.Before(s.started.Truncate(time.Second)) ||", new: ""},
	{name: "a session that was signed out goes on", in: "web.sessions.read", run: "TestASessionEnds",
		old: "return x, !ended", new: "return x, !ended || x.ID != \"\""},
	{name: "a form of another session is taken", in: "web.sessions.isFormToken", run: "TestAnotherSite",
		old: "return err == nil && hmac.Equal(given, mac(s.key, forForm, []byte(x.ID)))", new: "return err == nil && len(given) == len(mac(s.key, forForm, []byte(x.ID)))"},
	{name: "a viewer changes something", in: "web.Person.MayChange", run: "TestTokensSignIn",
		old: "return p.Role == Operator && p.MaySee(account)", new: "return p.Role != \"\" && p.MaySee(account)"},
	{name: "a person sees every account", in: "web.Person.MaySee", run: "TestTokensSignIn",
		old: "len(p.Accounts) == 0 ||", new: "len(p.Accounts) >= 0 ||"},
	{name: "an empty amount is none", in: "web.centsOf", run: "TestAChangeThatCannotBe",
		old: "if amount == nil {", new: "if amount == nil && text == \"\" {\n\t\treturn 0, nil\n\t}\n\tif amount == nil {"},
}
