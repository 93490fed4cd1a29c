#!/bin/sh
# Makes thunderbird-profile.tar.gz: a profile of Thunderbird with one account, whose server nobody reaches, and some post in
# its inbox, and with everything answered that a first start asks.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

top=$work/.thunderbird
profile=$top/bookshop.default-release
inbox=$profile/Mail/pop.bookshop.example
mkdir -p "$inbox" "$profile/Mail/Local Folders"

# The second section is for a Thunderbird in /usr/lib/thunderbird: it starts a profile of its own where it finds no such
# section.
cat >"$top/profiles.ini" <<'END'
[Profile0]
Name=default-release
IsRelative=1
Path=bookshop.default-release
Default=1

[InstallFDC34C9F024745EB]
Default=bookshop.default-release
Locked=1

[General]
StartWithLastProfile=1
Version=2
END

cat >"$profile/prefs.js" <<'END'
user_pref("app.donation.eoy.version.viewed", 999);
user_pref("app.update.checkInstallTime", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("mail.account.account1.server", "server1");
user_pref("mail.account.account2.identities", "id1");
user_pref("mail.account.account2.server", "server2");
user_pref("mail.accountmanager.accounts", "account2,account1");
user_pref("mail.accountmanager.defaultaccount", "account2");
user_pref("mail.accountmanager.localfoldersserver", "server1");
user_pref("mail.chat.enabled", false);
user_pref("mail.identity.id1.fullName", "The Bookshop");
user_pref("mail.identity.id1.smtpServer", "smtp1");
user_pref("mail.identity.id1.useremail", "post@bookshop.example");
user_pref("mail.identity.id1.valid", true);
user_pref("mail.inappnotifications.enabled", false);
user_pref("mail.pane_config.dynamic", 0);
user_pref("mail.provider.suppress_dialog_on_startup", true);
user_pref("mail.rights.version", 1);
user_pref("mail.server.server1.directory-rel", "[ProfD]Mail/Local Folders");
user_pref("mail.server.server1.hostname", "Local Folders");
user_pref("mail.server.server1.name", "Local Folders");
user_pref("mail.server.server1.type", "none");
user_pref("mail.server.server1.userName", "nobody");
user_pref("mail.server.server2.check_new_mail", false);
user_pref("mail.server.server2.directory-rel", "[ProfD]Mail/pop.bookshop.example");
user_pref("mail.server.server2.hostname", "pop.bookshop.example");
user_pref("mail.server.server2.login_at_startup", false);
user_pref("mail.server.server2.name", "post@bookshop.example");
user_pref("mail.server.server2.port", 995);
user_pref("mail.server.server2.socketType", 3);
user_pref("mail.server.server2.type", "pop3");
user_pref("mail.server.server2.userName", "post");
user_pref("mail.shell.checkDefaultClient", false);
user_pref("mail.smtpserver.smtp1.hostname", "smtp.bookshop.example");
user_pref("mail.smtpserver.smtp1.port", 465);
user_pref("mail.smtpserver.smtp1.try_ssl", 3);
user_pref("mail.smtpserver.smtp1.username", "post");
user_pref("mail.smtpservers", "smtp1");
user_pref("mail.spotlight.firstRunDone", true);
user_pref("mail.tabs.drawInTitlebar", false);
user_pref("mailnews.start_page.enabled", false);
user_pref("mailnews.start_page_override.mstone", "ignore");
user_pref("toolkit.telemetry.reportingpolicy.firstRun", false);
END

# message WHEN DAY SENDER SUBJECT
message() {
  cat <<END
From - $1
X-Mozilla-Status: 0000
X-Mozilla-Status2: 00000000
Date: $2
From: $3
To: The Bookshop <post@bookshop.example>
Subject: $4
Message-ID: <$(echo "$4" | tr -dc a-zA-Z0-9)@mail.example>
MIME-Version: 1.0
Content-Type: text/plain; charset=us-ascii

$5

END
}
{
  message "Mon Mar 02 09:12:00 2026" "Mon, 02 Mar 2026 09:12:00 +0000" "Ada Petrov <ada@paperwholesale.example>" \
    "Invoice 2041" "Please find the sum for forty reams of paper below: 212.40."
  message "Tue Mar 03 11:40:00 2026" "Tue, 03 Mar 2026 11:40:00 +0000" "Reading Circle <circle@readers.example>" \
    "Thursday evening" "We come at seven, eleven of us. Is there tea?"
  message "Wed Mar 04 16:05:00 2026" "Wed, 04 Mar 2026 16:05:00 +0000" "Lighthouse Press <orders@lighthouse.example>" \
    "Invoice for the sea atlas" "Six copies at 31.00 each, to be paid within thirty days."
} >"$inbox/Inbox"

# The same bytes each time.
tar --create --directory "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime=2026-03-05 .thunderbird |
  gzip -n >"$here/thunderbird-profile.tar.gz"
