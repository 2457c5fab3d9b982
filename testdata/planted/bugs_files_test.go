package planted

// fileBugs trust what another user of the machine has prepared.
var fileBugs = []bug{
	{name: "a link is written through", in: "files.Write", run: "TestWriteReplacesALink",
		old: "err = os.Rename(f.Name(), path)", new: "var text []byte\n\t\ttext, _ = os.ReadFile(f.Name())\n\t\terr = errors.Join(os.WriteFile(path, text, mode), os.Remove(f.Name()))"},
	{name: "a named pipe is replaced by a file", in: "files.notRegular", run: "TestWhatIsNoFile",
		old: "case mode.IsRegular():", new: "case mode.IsRegular(), mode&fs.ModeNamedPipe != 0:"},
	{name: "a file is read to its end, wherever that is", in: "files.Read", run: "TestReadIsBounded",
		old: "if err == nil && int64(len(text)) > most {", new: "if err == nil && int64(len(text)) < 0 {"},
	{name: "a byte order mark is a part of a secret", in: "files.Text", run: "TestTrap76",
		old: "bytes.TrimPrefix(text, []byte(\"\\ufeff\"))", new: "bytes.TrimPrefix(text, nil)"},
	{name: "a secret with an invisible character is taken", in: "files.Text", run: "TestTrap76",
		old: "if why := fact.Unprintable(shown); why != \"\" {", new: "if why := fact.Unprintable(\"\"); why != \"\" {"},
	{name: "only the directory right above is looked at", in: "files.CheckParents", run: "TestParentsThatOthers",
		old: "for below := \"\"; dir != below; dir = filepath.Dir(dir) {", new: "for below := \"\"; below == \"\"; dir = filepath.Dir(dir) {"},
	{name: "links above the data directory are not followed", in: "files.CheckParents", run: "TestParentsThatOthers",
		old: "[]string{filepath.Dir(path), resolved}", new: "[]string{filepath.Dir(path), resolved[:1]}"},
	{name: "a sticky bit counts for nothing", in: "files.checkParent", run: "TestParentsThatOthers",
		old: "|| info.Mode()&fs.ModeSticky != 0 {", new: "{"},
	{name: "the store of NATS stays open", in: "queue.StartEmbedded", run: "TestTheStoreIsClosed",
		old: "files.CloseDirectory(config.StoreDir)", new: "files.OwnDirectory(config.StoreDir)"},
	{name: "a configuration that every user may write is read", in: "config.Load", run: "TestLooseFiles",
		old: "files.Read(path, MaxConfigBytes, notOthers)", new: "files.Read(path, MaxConfigBytes)"},
	{name: "the ledger's log stays open", in: "ledger.closeToOthers", run: "TestWhatIsBesideALedger",
		old: "for _, ending := range besideIt {\n\t\tif err := files.Regular(path + ending)", new: "for _, ending := range besideIt[:1] {\n\t\tif err := files.Regular(path + ending)"},
}
