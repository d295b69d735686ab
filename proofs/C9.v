(* C9: the refresh model, in which the constant 2 + 1/lambda is a theorem.

   c t u is the cost of step t when the content was last refreshed at the end of step u < t (u = 0: before step 1);
   a refresh costs L. Fresher is never worse: c t is non-increasing in u. Whole numbers: lambda is L / U where the
   dearest step costs U. *)

Require Import List Arith Bool Lia.
Import ListNotations.

(* A schedule says after each step whether to refresh. Steps t, t + 1, ...; last refresh at u. *)
Fixpoint cost (c : nat -> nat -> nat) (L t u : nat) (choices : list bool) : nat :=
  match choices with
  | [] => 0
  | true :: r => c t u + L + cost c L (S t) t r
  | false :: r => c t u + cost c L (S t) u r
  end.

(* The policy: refresh when the cost since the last refresh reaches L. *)
Fixpoint policy (c : nat -> nat -> nat) (L t u since n : nat) : list bool :=
  match n with
  | 0 => []
  | S n' =>
      let now := since + c t u in
      if L <=? now then true :: policy c L (S t) t 0 n' else false :: policy c L (S t) u now n'
  end.

Definition fresher_is_no_worse (c : nat -> nat -> nat) : Prop := forall t u v, u <= v -> v < t -> c t v <= c t u.

Lemma policy_length : forall c L n t u since, length (policy c L t u since n) = n.
Proof.
  induction n as [| n IH]; intros t u since; [ reflexivity |].
  cbn [policy]. destruct (L <=? since + c t u); simpl; now rewrite IH.
Qed.

Section Phases.

Variables (c : nat -> nat -> nat) (L M : nat) (may : nat -> Prop).
Hypothesis positive : 0 < L.
Hypothesis fresher : fresher_is_no_worse c.
(* What may have been spent since a refresh: nothing at first, and never more than M. *)
Hypothesis may_0 : may 0.
Hypothesis may_step : forall s t u, may s -> s < L -> u < t -> may (s + c t u).
Hypothesis may_most : forall s, may s -> s <= M.

(* Where the policy stands: last refresh u, since < L spent on it; and the schedule: last refresh v, and in this phase
   it has paid at least `since` if its content is no fresher, at least L if it has refreshed. A phase costs the policy
   at most M + L, and any schedule at least L. *)
Lemma refresh_phases : forall choices t u v since has,
  u < t -> v < t -> since < L -> may since ->
  (if v <=? u then since <= has else L <= has) ->
  L * (since + cost c L t u (policy c L t u since (length choices)))
  <= (M + L) * (has + cost c L t v choices) + L * L.
Proof.
  induction choices as [| ch r IH]; intros t u v since has Hu Hv Hs Hm Hh.
  - simpl. assert (L * since <= L * L) by (apply Nat.mul_le_mono_l; lia). lia.
  - cbn [length policy].
    pose proof (may_step since t u Hm Hs Hu) as Hm2. pose proof (may_most _ Hm2) as Most.
    assert (Cv : v <= u -> c t u <= c t v) by (intros; apply fresher; lia).
    destruct (L <=? since + c t u) eqn:E.
    + apply Nat.leb_le in E. cbn [cost].
      assert (HP : L <= has + c t v).
      { destruct (v <=? u) eqn:Ev; [ apply Nat.leb_le in Ev; specialize (Cv Ev); lia | lia ]. }
      assert (L * (since + (c t u + L)) <= (M + L) * L) as PA.
      { rewrite (Nat.mul_comm (M + L) L). apply Nat.mul_le_mono_l. lia. }
      apply (Nat.mul_le_mono_l _ _ (M + L)) in HP.
      destruct ch.
      * specialize (IH (S t) t t 0 0 ltac:(lia) ltac:(lia) positive may_0 ltac:(rewrite Nat.leb_refl; lia)). lia.
      * specialize (IH (S t) t v 0 0 ltac:(lia) ltac:(lia) positive may_0).
        assert (v <=? t = true) as Evt by (apply Nat.leb_le; lia). rewrite Evt in IH.
        specialize (IH ltac:(lia)). lia.
    + apply Nat.leb_gt in E. cbn [cost]. destruct ch.
      * specialize (IH (S t) u t (since + c t u) (has + c t v + L) ltac:(lia) ltac:(lia) E Hm2).
        assert (t <=? u = false) as Etu by (apply Nat.leb_gt; lia). rewrite Etu in IH.
        specialize (IH ltac:(lia)). lia.
      * specialize (IH (S t) u v (since + c t u) (has + c t v) ltac:(lia) ltac:(lia) E Hm2).
        assert (if v <=? u then since + c t u <= has + c t v else L <= has + c t v) as H2.
        { destruct (v <=? u) eqn:Ev; [ apply Nat.leb_le in Ev; specialize (Cv Ev); lia | lia ]. }
        specialize (IH H2). lia.
Qed.

Lemma refresh_general : forall choices,
  L * cost c L 1 0 (policy c L 1 0 0 (length choices)) <= (M + L) * cost c L 1 0 choices + L * L.
Proof.
  intros choices.
  pose proof (refresh_phases choices 1 0 0 0 0 ltac:(lia) ltac:(lia) positive may_0 ltac:(simpl; lia)) as H.
  exact H.
Qed.

End Phases.

(* Steps of at most U: against every schedule ALG <= (2 + U/L) OPT + L, where U/L = 1/lambda for U = 1. *)
Theorem refresh_bound : forall c L U choices, 0 < L -> fresher_is_no_worse c -> (forall t u, u < t -> c t u <= U) ->
  L * cost c L 1 0 (policy c L 1 0 0 (length choices)) <= (2 * L + U) * cost c L 1 0 choices + L * L.
Proof.
  intros c L U choices HL F B.
  apply Nat.le_trans with ((L + U + L) * cost c L 1 0 choices + L * L); [| lia ].
  apply (refresh_general c L (L + U) (fun s => s <= L + U)); auto; [ lia |].
  intros s t u _ Hs Hu. specialize (B t u Hu). lia.
Qed.

(* Steps of 0 or D: ALG <= (1 + ceil(lambda)/lambda) OPT + L, with lambda = L/D. *)
Theorem refresh_bound_hard : forall c L D choices, 0 < L -> 0 < D -> fresher_is_no_worse c ->
  (forall t u, u < t -> c t u = 0 \/ c t u = D) ->
  L * cost c L 1 0 (policy c L 1 0 0 (length choices))
  <= (L + (L + D - 1) / D * D) * cost c L 1 0 choices + L * L.
Proof.
  intros c L D choices HL HD F B. set (k := (L + D - 1) / D).
  assert (L <= k * D) as Hk.
  { unfold k. pose proof (Nat.div_mod (L + D - 1) D ltac:(lia)) as E.
    pose proof (Nat.mod_upper_bound (L + D - 1) D ltac:(lia)). lia. }
  pose proof (refresh_general c L (k * D) (fun s => exists j, j <= k /\ s = j * D) HL F) as H.
  assert (H0 : exists j, j <= k /\ 0 = j * D) by (exists 0; lia).
  assert (H1 : forall s t u, (exists j, j <= k /\ s = j * D) -> s < L -> u < t ->
                 exists j, j <= k /\ s + c t u = j * D).
  { intros s t u [j [Hj ->]] Hs Hu. destruct (B t u Hu) as [-> | ->].
    - exists j. split; [ assumption | lia ].
    - exists (S j). split; [| simpl; lia ].
      assert (j * D < k * D) as Hlt by lia. apply Nat.mul_lt_mono_pos_r in Hlt; lia. }
  assert (H2 : forall s, (exists j, j <= k /\ s = j * D) -> s <= k * D)
    by (intros s [j [Hj ->]]; now apply Nat.mul_le_mono_r).
  specialize (H H0 H1 H2 choices). lia.
Qed.
