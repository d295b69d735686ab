(* Hard hits, unit sizes, e_t = q_t: the step of the cache, its rules and its price.

   An executable counterpart of `softhit.verify` and `softhit.cost` on a trace of `from_requests`: leaves come
   before enters; an item that leaves is held; one that enters is not; in `stream` it is the request of the
   step; the cache never exceeds K. `run` is None where `verify` raises. *)

Require Import List Arith Bool Lia.
Import ListNotations.

Record variant := Variant { serves_first : bool; stream : bool }.
Record action := Act { leaves : list nat; enters : list nat }.
Definition idle := Act [] [].

Definition held (i : nat) (c : list nat) : bool := existsb (Nat.eqb i) c.

Fixpoint drop (i : nat) (c : list nat) : list nat :=
  match c with [] => [] | x :: r => if i =? x then r else x :: drop i r end.

Fixpoint leave_all (c l : list nat) : option (list nat) :=
  match l with [] => Some c | i :: r => if held i c then leave_all (drop i c) r else None end.

Fixpoint enter_all (V : variant) (K q : nat) (c l : list nat) : option (list nat) :=
  match l with
  | [] => Some c
  | i :: r => if held i c then None
              else if stream V && negb (i =? q) then None
              else if S (length c) <=? K then enter_all V K q (i :: c) r else None
  end.

Definition update (V : variant) (K : nat) (c : list nat) (q : nat) (a : action) : option (list nat) :=
  match leave_all c (leaves a) with Some c1 => enter_all V K q c1 (enters a) | None => None end.

Definition miss (q : nat) (c : list nat) : nat := if held q c then 0 else 1.

(* A schedule is a list of (request, action). The result: the cache at the end, misses, insertions. *)
Fixpoint run (V : variant) (K : nat) (c : list nat) (l : list (nat * action)) : option (list nat * nat * nat) :=
  match l with
  | [] => Some (c, 0, 0)
  | (q, a) :: r =>
      match update V K c q a with
      | None => None
      | Some c1 =>
          match run V K c1 r with
          | None => None
          | Some (c2, m, z) =>
              Some (c2, miss q (if serves_first V then c else c1) + m, length (enters a) + z)
          end
      end
  end.

(* Prices in integer units: a miss costs D, an insertion L, so lambda = L / D. *)
Definition charged (D L m z : nat) : nat := m * D + z * L.
Definition free_fill (K D L m z : nat) : nat := m * D + (z - K) * L.

(* A deterministic online policy: from the requests so far, the present one first, to an action. *)
Fixpoint acts (pol : list nat -> action) (h qs : list nat) : list (nat * action) :=
  match qs with [] => [] | q :: r => (q, pol (q :: h)) :: acts pol (q :: h) r end.

(* Each item of bs requested tau times in a row. *)
Fixpoint blocks (tau : nat) (bs : list nat) : list nat :=
  match bs with [] => [] | x :: r => repeat x tau ++ blocks tau r end.

(* The items 0..K that a cache lacks. *)
Definition missing (K : nat) (c : list nat) : list nat := filter (fun i => negb (held i c)) (seq 0 (S K)).

Lemma held_In : forall i c, held i c = true <-> In i c.
Proof.
  intros i c. unfold held. rewrite existsb_exists. split.
  - intros [x [Hx E]]. apply Nat.eqb_eq in E. now subst.
  - intros H. exists i. split; [ assumption | apply Nat.eqb_refl ].
Qed.

Lemma held_nIn : forall i c, held i c = false <-> ~ In i c.
Proof.
  intros i c. rewrite <- held_In. destruct (held i c); split; intros; congruence.
Qed.

Lemma drop_In : forall i j c, In j (drop i c) -> In j c.
Proof.
  intros i j c; induction c as [| x r IH]; simpl; [ tauto |].
  destruct (i =? x); simpl; intuition.
Qed.

Lemma drop_length : forall i c, In i c -> S (length (drop i c)) = length c.
Proof.
  intros i c; induction c as [| x r IH]; simpl; [ tauto |].
  intros H. destruct (i =? x) eqn:E; [ reflexivity |].
  apply Nat.eqb_neq in E. simpl. rewrite IH; [ reflexivity | destruct H; congruence ].
Qed.

Lemma drop_NoDup : forall i c, NoDup c -> NoDup (drop i c).
Proof.
  intros i c; induction c as [| x r IH]; simpl; intros H; [ constructor |].
  inversion H; subst. destruct (i =? x); [ assumption |].
  constructor; [ intros C; apply drop_In in C; contradiction | auto ].
Qed.

Lemma drop_keeps : forall i j c, In j c -> j <> i -> In j (drop i c).
Proof.
  intros i j c; induction c as [| x r IH]; simpl; [ tauto |].
  intros H N. destruct (i =? x) eqn:E.
  - apply Nat.eqb_eq in E. destruct H; congruence.
  - simpl. destruct H; auto.
Qed.

Lemma drop_gone : forall i c, NoDup c -> ~ In i (drop i c).
Proof.
  intros i c; induction c as [| x r IH]; simpl; intros H; [ tauto |].
  inversion H; subst. destruct (i =? x) eqn:E.
  - apply Nat.eqb_eq in E. now subst.
  - apply Nat.eqb_neq in E. simpl. intros [C | C]; [ congruence | now apply IH in C ].
Qed.

Lemma leave_all_subset : forall l c c1, leave_all c l = Some c1 -> forall i, In i c1 -> In i c.
Proof.
  induction l as [| x r IH]; simpl; intros c c1 H i Hi.
  - now injection H as <-.
  - destruct (held x c); [| discriminate ]. eapply drop_In. eapply IH; eauto.
Qed.

Definition good (K : nat) (c : list nat) : Prop := NoDup c /\ length c <= K.

Lemma leave_all_good : forall K l c c1, leave_all c l = Some c1 -> good K c -> good K c1.
Proof.
  induction l as [| x r IH]; simpl; intros c c1 H G.
  - now injection H as <-.
  - destruct (held x c) eqn:E; [| discriminate ].
    apply (IH _ _ H). destruct G as [G1 G2]. apply held_In in E. split.
    + now apply drop_NoDup.
    + pose proof (drop_length _ _ E). lia.
Qed.

Lemma enter_all_good : forall V K q l c c1, enter_all V K q c l = Some c1 -> good K c -> good K c1.
Proof.
  induction l as [| x r IH]; cbn [enter_all]; intros c c1 H G.
  - now injection H as <-.
  - destruct (held x c) eqn:E; [ discriminate |].
    destruct (stream V && negb (x =? q)); [ discriminate |].
    destruct (S (length c) <=? K) eqn:E3; [| discriminate ].
    apply Nat.leb_le in E3. apply (IH _ _ H). destruct G.
    split; [ constructor; [ now apply held_nIn | assumption ] | simpl; lia ].
Qed.

(* What the rules keep: no item twice, never more than K. *)
Lemma update_good : forall V K c q a c1, update V K c q a = Some c1 -> good K c -> good K c1.
Proof.
  unfold update. intros V K c q a c1 H G.
  destruct (leave_all c (leaves a)) eqn:E; [| discriminate ].
  eapply enter_all_good; eauto. eapply leave_all_good; eauto.
Qed.

Lemma run_good : forall V K l c c1 m z, run V K c l = Some (c1, m, z) -> good K c -> good K c1.
Proof.
  induction l as [| [q a] r IH]; simpl; intros c c1 m z H G.
  - now injection H as <- <- <-.
  - destruct (update V K c q a) as [c2 |] eqn:E; [| discriminate ].
    destruct (run V K c2 r) as [[[c3 m3] z3] |] eqn:E2; [| discriminate ].
    injection H as <- <- <-. eapply IH; eauto. eapply update_good; eauto.
Qed.

Lemma run_app : forall V K l1 l2 c,
  run V K c (l1 ++ l2) =
  match run V K c l1 with
  | None => None
  | Some (c1, m1, z1) =>
      match run V K c1 l2 with None => None | Some (c2, m2, z2) => Some (c2, m1 + m2, z1 + z2) end
  end.
Proof.
  induction l1 as [| [q a] r IH]; simpl; intros l2 c.
  - destruct (run V K c l2) as [[[? ?] ?] |]; reflexivity.
  - destruct (update V K c q a) as [c2 |]; [| reflexivity ].
    rewrite IH. destruct (run V K c2 r) as [[[c3 m3] z3] |]; [| reflexivity ].
    destruct (run V K c3 l2) as [[[? ?] ?] |]; [| reflexivity ].
    now rewrite !Nat.add_assoc.
Qed.

Lemma acts_app : forall pol q1 q2 h, acts pol h (q1 ++ q2) = acts pol h q1 ++ acts pol (rev q1 ++ h) q2.
Proof.
  induction q1 as [| q r IH]; simpl; intros; [ reflexivity |].
  now rewrite IH, <- app_assoc.
Qed.

Lemma acts_fst : forall pol qs h, map fst (acts pol h qs) = qs.
Proof.
  induction qs as [| q r IH]; simpl; intros; [ reflexivity | now rewrite IH ].
Qed.

(* Pigeonhole: of K + 1 items at least one is missing. *)
Lemma one_is_missing : forall K c, good K c -> 1 <= length (missing K c).
Proof.
  intros K c [N Len]. destruct (missing K c) eqn:E; [| simpl; lia ].
  exfalso. assert (I : incl (seq 0 (S K)) c).
  { intros i Hi. destruct (held i c) eqn:EH; [ now apply held_In |].
    assert (In i (missing K c)) as C by (unfold missing; apply filter_In; split; [ assumption | now rewrite EH ]).
    rewrite E in C. destruct C. }
  apply NoDup_incl_length in I; [ rewrite seq_length in I; lia | apply seq_NoDup ].
Qed.

Lemma missing_In : forall K c i, In i (missing K c) <-> i <= K /\ ~ In i c.
Proof.
  intros. unfold missing. rewrite filter_In, in_seq, negb_true_iff, held_nIn. intuition lia.
Qed.
